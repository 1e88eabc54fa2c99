from typing import Any

import pytest

from gateway.settings import SettingsError, build
from gateway.settings.batches import BatchesSettings
from tests.alert_receiver import SECRET

HOOK = {"name": "jobs", "url": "https://jobs.example.com/hook", "secret": SECRET}


def with_webhooks(*webhooks: Any, **variables: str) -> BatchesSettings:
    models = [{"name": "tiny", "workers": [{"url": "http://a"}]}]
    return build({"models": models, "batches": {"webhooks": list(webhooks)}}, variables).batches


def test_a_worker_has_few_lines_in_flight() -> None:
    settings = BatchesSettings()

    assert (32, 1000, 30) == (settings.max_in_flight_per_worker, settings.max_team_batches, settings.lease_s)


def test_enqueued_tokens_have_no_limit_by_default() -> None:
    settings = BatchesSettings()

    assert (None, {}) == (settings.max_enqueued_tokens, settings.model_enqueued_tokens)
    assert (True, {}) == (settings.interrupt_prompts, settings.model_interrupt_prompts)


def test_there_are_no_webhooks_by_default() -> None:
    assert () == BatchesSettings().webhooks


def test_a_webhook_is_for_all_teams_or_for_some() -> None:
    one, other = with_webhooks(HOOK, HOOK | {"name": "red", "teams": ["red"]}).webhooks

    assert (None, ("red",)) == (one.teams, other.teams)


def test_the_secret_of_a_webhook_can_be_in_a_variable() -> None:
    hook = {"name": "jobs", "url": "https://jobs.example.com/hook", "secret_env": "HOOK_SECRET"}
    (found,) = with_webhooks(hook, HOOK_SECRET=SECRET).webhooks

    assert found.secret is not None
    assert SECRET == found.secret.get_secret_value()


@pytest.mark.parametrize(
    ("hooks", "text"),
    [
        ([HOOK, HOOK], "already used by batches.webhooks[0].name"),
        ([HOOK | {"secret": "whsec_short"}], "batches.webhooks[0].secret"),
        ([{"name": "jobs", "url": "https://jobs"}], "batches.webhooks[0].secret is required"),
        ([HOOK | {"url": "jobs.example.com"}], "batches.webhooks[0].url"),
        ([HOOK | {"teams": ["a team"]}], "batches.webhooks[0].teams[0]"),
    ],
)
def test_faults_of_webhooks_are_named(hooks: list[Any], text: str) -> None:
    with pytest.raises(SettingsError) as raised:
        with_webhooks(*hooks)

    assert text in str(raised.value)
    assert "whsec_" not in str(raised.value).replace("whsec_ and", "")
