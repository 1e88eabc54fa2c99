"""Facts about what the header Idempotency-Key stands for."""

from typing import Any

import pytest

from gateway.api.admin_v1.bodies import TeamBody
from gateway.api.admin_v1.claims import Claim, claim_of
from gateway.protocol.errors import InvalidField

BLUE = TeamBody(name="blue")


def claim(key: str | None = "k-1", **other: Any) -> Claim | None:
    known: dict[str, Any] = {"admin": "ann", "route": "teams", "body": BLUE, "makes": "blue"}
    return claim_of(key, **known | other)


def test_without_the_header_nothing_is_claimed() -> None:
    assert claim(None) is None


def test_the_same_request_has_the_same_claim() -> None:
    """However its body was spelt: what is given as a default is as good as left out."""
    assert claim() == claim(body=TeamBody(name="blue", weight=1.0))


@pytest.mark.parametrize("other", [{"key": "k-2"}, {"admin": "bob"}, {"route": "keys"}])
def test_another_header_admin_or_route_is_another_claim(other: dict[str, Any]) -> None:
    """No one can find out, or take, what another admin claimed."""
    one, two = claim(), claim(**other)
    assert one is not None
    assert two is not None

    assert one.id != two.id


def test_another_body_is_the_same_claim_for_something_else() -> None:
    one, two = claim(), claim(body=TeamBody(name="red"))
    assert one is not None
    assert two is not None

    assert one.id == two.id
    assert one.body != two.body


def test_a_claim_holds_nothing_in_clear() -> None:
    assert "k-1" not in repr(claim())


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "\xe9"])
def test_a_header_that_is_not_one_is_refused(key: str) -> None:
    with pytest.raises(InvalidField) as caught:
        claim(key)

    assert "idempotency-key" == caught.value.param
