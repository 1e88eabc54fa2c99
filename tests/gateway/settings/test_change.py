"""What a gateway that runs can take over."""

import pytest

from gateway.settings import applicable
from gateway.settings.change import FIXED
from gateway.settings.schema import Settings
from tests.gateway.settings.examples import SMALLEST, parsed


def test_what_has_not_changed_is_in_force_already() -> None:
    """Nothing is to be done, and nothing needs a restart."""
    change = applicable(parsed(), parsed())

    assert (parsed(), ()) == (change.settings, change.needs_restart)


@pytest.mark.parametrize(
    "text",
    [
        "models: [{name: other, workers: [{url: 'http://a:1'}]}]",
        f"{SMALLEST}\ntimeouts: {{connect_s: 1, total_s: 100}}",
        f"{SMALLEST}\nhealth: {{interval_s: 1, path: /livez}}",
        f"{SMALLEST}\nbedrock: {{region: eu-west-1}}",
    ],
)
def test_models_and_what_concerns_workers_alone_can_be_applied(text: str) -> None:
    """All of it."""
    change = applicable(parsed(), parsed(text))

    assert (parsed(text), ()) == (change.settings, change.needs_restart)


@pytest.mark.parametrize(
    ("group", "setting"),
    [
        ("server", "max_body_bytes: 10"),
        ("routing", "seed: 1"),
        ("index", "max_bytes: 10"),
        ("breaker", "failures: 1"),
        ("retry", "max_attempts: 1"),
        ("logging", "level: debug"),
    ],
)
def test_the_others_keep_their_values_and_are_named(group: str, setting: str) -> None:
    """One by one, not by their group; the rest of the change is applied."""
    models = SMALLEST.replace("server: {host: 127.0.0.1, port: 8080}", "")
    text = f"{models}\n{group}: {{{setting}}}\ntimeouts: {{idle_s: 7}}"
    change = applicable(parsed(), parsed(text))

    assert (f"{group}.{setting.split(':', maxsplit=1)[0]}",) == change.needs_restart
    assert 7 == change.settings.timeouts.idle_s
    assert getattr(parsed(), group) == getattr(change.settings, group)


def test_a_timeout_waits_for_the_lease_that_it_needs() -> None:
    """Else the bookings of long answers would end before the answers."""
    wanted = parsed(f"{SMALLEST}\nrouting: {{lease_s: 9000}}\ntimeouts: {{total_s: 9000, idle_s: 7}}")
    change = applicable(parsed(), wanted)

    assert ("routing.lease_s", "timeouts.idle_s", "timeouts.total_s") == change.needs_restart
    assert parsed().timeouts == change.settings.timeouts


def test_every_group_is_of_one_of_the_two_kinds() -> None:
    """A group that is added has to be put somewhere."""
    applicable_groups = {"models", "routes", "adapters", "guardrails", "teams", "timeouts", "health", "bedrock"}
    applicable_groups |= {"limit_templates", "model_groups"}

    assert applicable_groups == Settings.model_fields.keys() - set(FIXED)
