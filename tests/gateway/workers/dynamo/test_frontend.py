"""What a Dynamo frontend says of the workers behind it. The bodies are those of ai-dynamo 1.6.1."""

import json
from typing import Any

import pytest

from gateway.workers.dynamo.frontend import instances_in
from gateway.workers.shared_address.address_report import Instance


def instance(number: Any, **changes: Any) -> dict[str, Any]:
    reported = {
        "component": "backend",
        "endpoint": "generate",
        "namespace": "dynamo",
        "instance_id": number,
        "transport": {"tcp": "10.0.0.5:38519/da03452da02611b5/dynamo/backend/generate"},
        "device_type": "cuda",
        "request_plane_codec": "msgpack",
    }
    return {**reported, **changes}


def health(*instances: dict[str, Any]) -> bytes:
    return json.dumps({"status": "healthy", "endpoints": [], "instances": instances}).encode()


def test_workers_are_those_that_generate_in_the_order_of_their_ids() -> None:
    """Each has other endpoints as well; ids are beyond what a float holds."""
    indexer = instance(7652124538602271669, endpoint="worker_kv_query_source_153eeb166e046d")
    body = health(instance(15709475987461116341), instance(7652124538602271669), indexer)

    assert (Instance("7652124538602271669", "10.0.0.5"), Instance("15709475987461116341", "10.0.0.5")) == (
        instances_in(body)
    )
    assert () == instances_in(health())


def test_only_those_of_a_namespace_or_component_are_taken() -> None:
    """A frontend may stand before several pools."""
    body = health(instance(1), instance(2, namespace="other"), instance(3, component="prefill"))

    def ids(**wanted: str) -> list[str]:
        return [each.id for each in instances_in(body, **wanted) or ()]

    assert [["1", "2", "3"], ["1", "3"], ["1", "2"], ["1"]] == [
        ids(),
        ids(namespace="dynamo"),
        ids(component="backend"),
        ids(namespace="dynamo", component="backend"),
    ]


@pytest.mark.parametrize(
    ("transport", "host"),
    [
        ({"tcp": "[fd00::5]:38519/x"}, "fd00::5"),
        ({"tcp": "10.0.0.5"}, None),
        ({"tcp": ":38519/x"}, None),
        ({"tcp": "a b:38519/x"}, None),
        ({"tcp": 7}, None),
        ({"nats_tcp": "dynamo_backend.generate-1"}, None),
        ("tcp", None),
        (None, None),
    ],
)
def test_the_host_of_a_worker_stands_in_its_transport(transport: Any, host: str | None) -> None:
    assert (Instance("1", host),) == instances_in(health(instance(1, transport=transport)))


@pytest.mark.parametrize(
    "body", [b"", b"ok", b"[]", b"{}", b'{"instances":[{}]}', b'{"instances":[{"instance_id":"x"}]}']
)
def test_other_answers_are_not(body: bytes) -> None:
    assert instances_in(body) is None


def test_numbers_that_are_no_ids_are_left_out() -> None:
    assert () == instances_in(health(instance(-1)))
