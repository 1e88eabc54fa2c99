from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.api.admin_v1.gateway_facts import FallbackFacts, StoreFacts, StreamFacts, TeamFacts
from gateway.app.diagnosis.settings_facts import settings_facts

WORKER = {"url": "http://10.0.0.5:8000", "id": "w1"}


def written(folder: Path, *, model: dict[str, Any] | None = None, **groups: Any) -> Path:
    path = folder / "warmgate.yaml"
    path.write_text(yaml.safe_dump({"models": [{"name": "tiny", "workers": [WORKER], **(model or {})}], **groups}))
    return path


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARMGATE_ADMIN_URL", raising=False)


def test_models_and_workers_of_a_file(tmp_path: Path) -> None:
    """Nothing is known of the state of the workers."""
    found = settings_facts(written(tmp_path, model={"strategy": "round_robin"}), now=0.0)
    (model,) = found.facts.models
    (worker,) = model.workers

    assert ("tiny", "round_robin", False, False) == (
        model.name,
        model.strategy,
        model.uses_events,
        model.may_find_workers,
    )
    assert ("w1", None, None) == (worker.id, worker.state, worker.stream)
    assert {("tiny", "w1"): "http://10.0.0.5:8000"} == {place: spec.url for place, spec in found.workers.items()}
    assert None is found.facts.time


def test_kv_events_of_a_file(tmp_path: Path) -> None:
    """Their address may lack the one for replays."""
    events = {"endpoint": "tcp://10.0.0.5:5557"}
    model = {"strategy": "kv_aware", "workers": [{**WORKER, "kv_events": events}]}
    facts = settings_facts(written(tmp_path, model=model), now=0.0).facts
    (worker,) = facts.models[0].workers

    assert facts.models[0].uses_events
    assert StreamFacts(state="untrusted", has_replay=False) == worker.stream


def test_test_requests_of_fallbacks(tmp_path: Path) -> None:
    model = {"fallbacks": [{"bedrock": {"model_id": "m"}}, {"openai": {"url": "https://llm.example.com/v1"}}]}
    bedrock = {"region": "us-east-1", "canary_every_s": None}
    facts = settings_facts(written(tmp_path, model=model, bedrock=bedrock), now=0.0).facts

    assert (FallbackFacts(id="bedrock:m", every_s=None),) == facts.models[0].fallbacks


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (None, StoreFacts()),
        ("sqlite:////var/lib/warmgate.db", StoreFacts(kind="file")),
        ("redis://redis:6379/0", StoreFacts(kind="redis")),
    ],
)
def test_the_store_of_a_file(tmp_path: Path, url: str | None, expected: StoreFacts) -> None:
    facts = settings_facts(written(tmp_path, store={"url": url}), now=0.0).facts

    assert expected == facts.store


def test_teams_of_a_file(tmp_path: Path) -> None:
    """With the keys that have no limit; without teams and a store the mode counts."""
    teams = [{"name": "blue", "keys": [{"id": "ci", "secret": "s" * 16}]}]
    facts = settings_facts(written(tmp_path, teams=teams), now=0.0).facts
    alone = settings_facts(written(tmp_path), now=0.0).facts

    assert ((TeamFacts(name="blue", keys=1, unlimited_keys=("ci",)),), None) == (facts.teams, facts.open_mode)
    assert ((), "loopback") == (alone.teams, alone.open_mode)
