"""Who may use the routes under /warmgate."""

import pytest

from gateway.api.admin_access import AdminAccess
from gateway.errors import AdminClosed, AdminRefused


@pytest.mark.parametrize("authorization", ["Bearer t-1", "bearer t-1", "Bearer  t-1 "])
def test_whoever_brings_the_token_may(authorization: str) -> None:
    """The scheme's case does not matter, as in HTTP."""
    AdminAccess("t-1").check(authorization)


@pytest.mark.parametrize(
    "authorization", ["", "t-1", "Bearer", "Bearer t-2", "Bearer t-1x", "Basic t-1", "Bearer t\xe9"]
)
def test_others_may_not(authorization: str) -> None:
    """They are told what is needed, and nothing of what they brought."""
    with pytest.raises(AdminRefused) as refused:
        AdminAccess("t-1").check(authorization)

    assert 401 == refused.value.status
    assert "This route needs the admin token: authorization: Bearer <server.admin_token>" == refused.value.message


@pytest.mark.parametrize("authorization", ["", "Bearer ", "Bearer None"])
def test_without_a_token_nobody_may(authorization: str) -> None:
    """Nothing is open by accident."""
    with pytest.raises(AdminClosed, match=r"set server.admin_token to open them") as closed:
        AdminAccess(None).check(authorization)

    assert 403 == closed.value.status
