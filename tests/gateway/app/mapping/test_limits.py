from gateway.app.mapping.limits import limits_of, model_limits_of
from gateway.settings import LimitSettings
from gateway.tenancy.teams.limits import Limits


def test_settings_of_limits_become_limits() -> None:
    settings = LimitSettings(requests_per_minute=5, max_concurrent_requests=2, usd_per_month=9.5)

    assert Limits(requests_per_minute=5, concurrent=2, usd_per_month=9.5) == limits_of(settings)
    assert {"tiny": Limits(tokens_per_day=7)} == model_limits_of({"tiny": LimitSettings(tokens_per_day=7)})
