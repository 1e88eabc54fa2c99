"""Facts about the benchmark of callers with tokens."""

import httpx
import jwt
import pytest

from benchmarks.report import Circumstances, Report
from benchmarks.token_callers import AUDIENCE, WITH_KEY, WITH_TOKEN, fill, issuer, parse_arguments
from gateway.settings import Settings
from tests.benchmarks.measurements import measured


@pytest.mark.parametrize(("per_s", "is_met"), [(970.0, True), (960.0, False)])
def test_a_token_may_cost_three_percent(per_s: float, is_met: bool) -> None:
    report = Report("token_callers", "Tokens", Circumstances.observe(seed=1, packages=()))
    fill(report, [measured(WITH_KEY, 1_000.0, load="requests"), measured(WITH_TOKEN, per_s, load="requests")])

    assert is_met == report.is_met
    assert f"| {WITH_TOKEN} |" in report.markdown()


def test_the_token_is_one_of_the_issuer_that_the_settings_name() -> None:
    with issuer() as (settings, token):
        (trusted,) = settings["identity"]["issuers"]
        (key,) = jwt.PyJWKSet.from_dict(httpx.get(trusted["jwks_url"], trust_env=False).json()).keys
        claims = jwt.decode(token, key, algorithms=["RS256"], audience=AUDIENCE, issuer=trusted["issuer"])
        models = [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}]
        read = Settings.model_validate({"models": models, **settings})

    assert ["benchmark"] == claims["groups"]
    assert "benchmark" == read.identity.issuers[0].rules[0].team


def test_by_default_there_are_thirty_rounds_of_two_seconds() -> None:
    arguments = parse_arguments([])

    assert (30, 2.0) == (arguments.rounds, arguments.seconds)
