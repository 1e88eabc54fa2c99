from pathlib import Path

import pytest

from tests.gateway.cli.commands.terminal import Terminal, terminal

__all__ = ["terminal"]

SOUND = """\
models: [{name: tiny, workers: [{url: 'http://127.0.0.1:1', id: w1}]}]
teams: [{name: blue, limits: {requests_per_minute: 60}, keys: [{id: ci, secret: a-secret-of-the-file}]}]
"""


@pytest.fixture
def settings(tmp_path: Path, terminal: Terminal) -> Path:
    """Settings with nothing wrong in them."""
    terminal.config.write_text(f"{SOUND}store: {{url: 'sqlite:///{tmp_path}/warmgate.db'}}\n")
    return terminal.config


def test_nothing_to_report(terminal: Terminal, settings: Path) -> None:
    printed = terminal.run("doctor", "--offline", "--config", str(settings))

    assert (0, "Nothing to report.\n", "") == printed


def test_findings_for_people(terminal: Terminal, settings: Path) -> None:
    """A line for each, then what to do and where it is explained, once for each kind."""
    settings.write_text(SOUND.replace("limits: {requests_per_minute: 60}, ", ""))
    printed = terminal.run("doctor", "--offline", "--config", str(settings))
    head, key, store = printed.rows[:3]

    assert 1 == printed.code
    assert ["SEVERITY", "FINDING", "CONCERNS", "WHAT"] == head
    assert ["warning", "key-without-limits", "team", "blue"] == key[:4]
    assert ["warning", "no-store", "gateway"] == store[:3]
    assert "\nno-store: Set store.url to a SQLite file (one gateway) or to Redis (several gateways).\n" in printed.out
    assert "\n  docs/operate/troubleshoot-by-symptom.md#no-store\n" in printed.out
    assert "a-secret-of-the-file" not in printed.out


def test_findings_for_programs(terminal: Terminal, settings: Path) -> None:
    settings.write_text(SOUND)
    printed = terminal.run("doctor", "--offline", "--json", "--config", str(settings))

    assert {
        "object": "diagnosis",
        "findings": [
            {
                "severity": "warning",
                "code": "no-store",
                "model": None,
                "worker": None,
                "team": None,
                "fallback": None,
                "text": "Teams are configured without store.url, so usage, budgets and new keys are lost on restart.",
                "remedy": "Set store.url to a SQLite file (one gateway) or to Redis (several gateways).",
                "page": "docs/operate/troubleshoot-by-symptom.md#no-store",
            }
        ],
    } == printed.json


def test_the_workers_of_the_settings_are_asked(terminal: Terminal, settings: Path) -> None:
    """The command also looks into their store, which is sound."""
    printed = terminal.run("doctor", "--json", "--config", str(settings))

    assert [("worker-unavailable", "w1")] == [(each["code"], each["worker"]) for each in printed.json["findings"]]


def test_a_store_that_cannot_be_used(terminal: Terminal, settings: Path) -> None:
    settings.write_text(f"{SOUND}store: {{url: 'redis://:hidden@127.0.0.1:1/0'}}\n")
    printed = terminal.run("doctor", "--json", "--config", str(settings))

    assert "store-unavailable" in [each["code"] for each in printed.json["findings"]]
    assert "hidden" not in printed.out


def test_settings_that_are_wrong_are_wrong_usage(terminal: Terminal, settings: Path) -> None:
    settings.write_text("models: 1\n")

    assert 2 == terminal.run("doctor", "--config", str(settings)).code


def test_a_gateway_that_cannot_be_asked(terminal: Terminal) -> None:
    terminal.monkeypatch.setenv("WARMGATE_ADMIN_KEY", "a-key")
    printed = terminal.run("doctor", "--url", "http://127.0.0.1:1")

    assert (1, "") == (printed.code, printed.out)
    assert "http://127.0.0.1:1 cannot be reached" in printed.err


def test_faults_that_settings_show_by_themselves(terminal: Terminal, settings: Path) -> None:
    """Settings with round robin, a key without limits, rare test requests and no store."""
    settings.write_text("""\
models:
  - name: tiny
    strategy: round_robin
    workers: [{url: 'http://127.0.0.1:1'}, {url: 'http://127.0.0.1:2'}]
    fallbacks: [{bedrock: {model_id: m}}]
bedrock: {region: us-east-1, canary_every_s: 3000000}
teams: [{name: blue, keys: [{id: ci, secret: a-secret-of-the-file}]}]
""")
    printed = terminal.run("doctor", "--offline", "--json", "--config", str(settings))

    assert ["expired-canary", "key-without-limits", "no-store", "round-robin-configured"] == sorted(
        each["code"] for each in printed.json["findings"]
    )


def test_without_a_gateway_and_without_settings_there_is_nothing_to_check(terminal: Terminal) -> None:
    expected = "No gateway and no settings to check are given. Use --url, WARMGATE_ADMIN_URL or --config.\n"

    assert (2, "", expected) == terminal.run("doctor")
