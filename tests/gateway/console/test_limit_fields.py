"""Facts about limits in forms."""

import pytest

from gateway.console.admin_client import AdminRefused
from gateway.console.limit_fields import LIMITS, limits_in
from gateway.tenancy.teams.limits import Limits


def test_every_limit_has_a_field() -> None:
    """Limits above which the gateway only warns have one, too."""
    assert sorted(Limits.__struct_fields__) == sorted(each.name for each in LIMITS)


def test_empty_fields_are_no_limit_and_absent_fields_stay() -> None:
    form = {"usd_per_day": "1.5", "tokens_per_day": " 10 ", "concurrent": "", "name": "blue"}

    assert {"usd_per_day": 1.5, "tokens_per_day": 10, "concurrent": None} == limits_in(form)


@pytest.mark.parametrize("form", [{"usd_per_day": "a"}, {"concurrent": "1.5"}])
def test_other_values_are_refused(form: dict[str, str]) -> None:
    with pytest.raises(AdminRefused) as caught:
        limits_in(form)

    assert 400 == caught.value.status
