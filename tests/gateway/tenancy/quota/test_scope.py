"""Names of limits in messages and metrics."""

from gateway.tenancy.quota.scope import Scoped
from tests.gateway.tenancy.quota.examples import BUDGET, TOKENS


def test_messages_name_whose_limit_it_is() -> None:
    key = Scoped(TOKENS, "tokens_per_minute", "key", "ci", None)
    team = Scoped(BUDGET, "usd_per_day", "team", "blue", "tiny")

    assert "key ci on tokens per min (TPM)" == key.text
    assert "team blue for model tiny on US dollars per day" == team.text


def test_metrics_name_no_key_team_or_model() -> None:
    key = Scoped(TOKENS, "tokens_per_minute", "key", "ci", None)
    team = Scoped(BUDGET, "usd_per_day", "team", "blue", "tiny")

    assert "key/tokens_per_minute" == key.label
    assert "team/model/usd_per_day" == team.label
