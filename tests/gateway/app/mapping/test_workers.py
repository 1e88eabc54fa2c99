"""Values for the room of workers, from settings."""

from pathlib import Path

import pytest

from gateway.app.mapping.workers import access_of, check_source, sources_of
from gateway.settings import KubernetesSettings
from gateway.workers.discovery.dns import DnsSource
from gateway.workers.discovery.endpoints import ServiceSource
from gateway.workers.discovery.file import FileSource
from gateway.workers.discovery.pods import PodsSource
from gateway.workers.discovery.source import SourceSpec, WorkerSource
from gateway.workers.kubernetes.access import IN_CLUSTER, ApiAccess
from gateway.workers.worker_spec import DynamoSpec, EventsSpec, InstanceSpec, WorkersError, WorkerSpec
from tests.gateway.settings.examples import parsed, with_model, with_worker, with_workers

EVERYTHING = {
    "workers_file": "w.yaml",
    "service": {"name": "vllm"},
    "pods": {"selector": "app=vllm"},
    "dns": {"name": "vllm.models", "port": 8000},
}


def test_a_worker_has_all_that_its_settings_say() -> None:
    events = {"endpoint": "tcp://10.0.0.5:5557", "topic": "kv"}
    fields = {"id": "w", "api_key": "sk", "tier": 1, "zone": "z", "uid": "u", "draining": True, "max_connections": 3}
    dynamo = {"instances": [{"id": 7, "kv_events": events}]}
    (model,) = with_workers(with_worker(**fields, dynamo=dynamo))

    stream = EventsSpec("tcp://10.0.0.5:5557", topic="kv")
    assert (
        WorkerSpec(
            *("http://a:1", "w", "sk", 1),
            draining=True,
            max_connections=3,
            zone="z",
            uid="u",
            dynamo=DynamoSpec((InstanceSpec("7", stream),)),
        ),
    ) == model.workers


def test_each_setting_is_a_source_of_its_own() -> None:
    """In the order in which they count."""
    sources = sources_of(parsed(with_model(**EVERYTHING)).models[0])

    assert list(EVERYTHING) == [source.kind for source in sources]
    assert () == sources_of(parsed().models[0])


def test_a_file_can_be_checked_before_it_is_followed(tmp_path: Path) -> None:
    """What else there is, and a file that is not there yet, cannot."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("x")
    places: tuple[SourceSpec, ...] = (
        FileSource(str(tmp_path / "none.yaml")),
        ServiceSource(name="a"),
        PodsSource(selector="a"),
        DnsSource(name="a", port=1),
    )
    for where in places:
        check_source(WorkerSource("tiny", where))

    with pytest.raises(WorkersError, match="must hold a list of workers"):
        check_source(WorkerSource("tiny", FileSource(str(bad))))


def test_what_the_settings_leave_open_is_the_pods_own() -> None:
    """Address, token, certificates, namespace."""
    given = KubernetesSettings(api_url="https://k:6443", token_file="/t", ca_file="/c", namespace="n")

    assert ApiAccess(IN_CLUSTER) == access_of(KubernetesSettings())
    assert ApiAccess("https://k:6443", Path("/t"), Path("/c"), "n") == access_of(given)
