"""Metrics of reloads."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gateway.telemetry.reloads import Reloads
from tests.gateway.examples import Clock


def exposition(reloads: Reloads) -> str:
    registry = CollectorRegistry()
    registry.register(reloads)
    return generate_latest(registry).decode()


def samples(reloads: Reloads) -> dict[str, float]:
    """Those that are not 0, as they stand in the exposition."""
    lines = [line.rsplit(" ", 1) for line in exposition(reloads).splitlines() if not line.startswith("#")]
    return {name.removeprefix("warmgate_"): float(value) for name, value in lines if float(value)}


def test_the_families_are_these() -> None:
    """Dashboards and alerts rely on names and types; all outcomes are there from the beginning."""
    reloads = Reloads(wall_clock=Clock(1000.0))
    reloads.follow(["tiny"])
    text = exposition(reloads)

    assert [
        ("counter", "warmgate_config_reloads"),
        ("gauge", "warmgate_config_last_reload_successful"),
        ("gauge", "warmgate_config_last_applied_timestamp_seconds"),
        ("gauge", "warmgate_config_needs_restart"),
        ("counter", "warmgate_discovery_updates"),
        ("gauge", "warmgate_discovery_last_update_successful"),
    ] == [(family.type, family.name) for family in text_string_to_metric_families(text)]
    for outcome in ("applied", "unchanged", "refused"):
        assert f'warmgate_config_reloads_total{{outcome="{outcome}"}} 0.0\n' in text
        assert f'warmgate_discovery_updates_total{{model="tiny",outcome="{outcome}"}} 0.0\n' in text
    assert "_created" not in text


def test_the_start_counts_as_applied_and_good() -> None:
    """An alert on the last reload is silent until there was a bad one."""
    assert {
        "config_last_reload_successful": 1.0,
        "config_last_applied_timestamp_seconds": 1000.0,
    } == samples(Reloads(wall_clock=Clock(1000.0)))


def test_outcomes_are_counted_and_the_last_one_is_shown() -> None:
    """What was refused or unchanged has not taken effect."""
    clock = Clock(1000.0)
    reloads = Reloads(wall_clock=clock)
    for clock.now, outcome in ((1001.0, "applied"), (1002.0, "unchanged"), (1003.0, "refused")):
        reloads.count(outcome)  # type: ignore[arg-type]  # literals in a tuple are text to mypy

    assert {
        'config_reloads_total{outcome="applied"}': 1.0,
        'config_reloads_total{outcome="unchanged"}': 1.0,
        'config_reloads_total{outcome="refused"}': 1.0,
        "config_last_applied_timestamp_seconds": 1001.0,
    } == samples(reloads)

    reloads.count("unchanged")

    assert 1.0 == samples(reloads)["config_last_reload_successful"]


def test_settings_that_need_a_restart_are_named() -> None:
    """Settings that need a restart are shown until they do not."""
    reloads = Reloads(wall_clock=Clock(1.0))
    reloads.needs_restart = ("server.port", "retry.max_attempts")
    named = {name for name in samples(reloads) if "restart" in name}
    reloads.needs_restart = ()

    assert {
        'config_needs_restart{setting="server.port"}',
        'config_needs_restart{setting="retry.max_attempts"}',
    } == named
    assert not [name for name in samples(reloads) if "restart" in name]


def test_models_have_series_while_they_are_followed() -> None:
    """Those that stay keep their counts, those that left are forgotten, of others nothing is counted."""
    reloads = Reloads(wall_clock=Clock(1.0))
    reloads.follow(["tiny", "big"])
    for model in ("tiny", "big", "other"):
        reloads.count_found(model, "applied")
    reloads.follow(["tiny"])
    reloads.count_found("tiny", "refused")

    assert {
        'discovery_updates_total{model="tiny",outcome="applied"}': 1.0,
        'discovery_updates_total{model="tiny",outcome="refused"}': 1.0,
    } == {name: value for name, value in samples(reloads).items() if name.startswith("discovery")}
