"""Names of limits in messages and metrics."""

from gateway.tenancy.quota.scope import Scoped, is_named_by_callers
from tests.gateway.tenancy.quota.examples import BUDGET, TOKENS


def test_messages_name_whose_limit_it_is() -> None:
    key = Scoped(TOKENS, "tokens_per_minute", "key", "ci", None)
    team = Scoped(BUDGET, "usd_per_day", "team", "blue", "tiny")

    assert "key ci on tokens per min (TPM)" == key.text
    assert "team blue for model tiny on US dollars per day" == team.text


def test_names_that_callers_choose_are_quoted_and_shortened() -> None:
    user = Scoped(TOKENS, "tokens_per_minute", "user", "a\nb", None)
    session = Scoped(TOKENS, "tokens_per_minute", "session", "s" * 256, None)
    unnamed = Scoped(TOKENS, "tokens_per_minute", "user", "", None)

    assert r"end user 'a\nb' on tokens per min (TPM)" == user.text
    assert f"session '{'s' * 64}' on tokens per min (TPM)" == session.text
    assert "requests without an end user on tokens per min (TPM)" == unnamed.text


def test_callers_name_end_users_and_sessions() -> None:
    ids = ["user:/concurrent", "session:blake2b:00/concurrent", "key:user/concurrent", "team:a/concurrent"]

    assert [True, True, False, False] == [is_named_by_callers(each) for each in ids]


def test_metrics_name_no_key_team_or_model() -> None:
    key = Scoped(TOKENS, "tokens_per_minute", "key", "ci", None)
    team = Scoped(BUDGET, "usd_per_day", "team", "blue", "tiny")

    assert "key/tokens_per_minute" == key.label
    assert "team/model/usd_per_day" == team.label
