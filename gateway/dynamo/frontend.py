"""What a Dynamo frontend says of the workers behind it, at ``/health`` (ai-dynamo 1.6.1)."""

import re

import msgspec

from gateway.ranks.population import Instance

ENDPOINT = "generate"
"""Of a worker's endpoints the one that requests are sent to; others are for its indexer."""
MOST_INSTANCES = 4096
_HOST = re.compile(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:.]+")


class _Instance(msgspec.Struct):
    instance_id: int
    endpoint: str
    namespace: str = ""
    component: str = ""
    transport: object = None


class _Health(msgspec.Struct):
    instances: list[_Instance]


def instances_in(
    body: bytes, *, namespace: str | None = None, component: str | None = None
) -> tuple[Instance, ...] | None:
    """The workers that the answer to ``GET /health`` lists, in the order of their ids; None if it is none.

    Of several in different namespaces, or components, only those that are asked for.
    """
    try:
        instances = msgspec.json.decode(body, type=_Health).instances
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    found = {
        each.instance_id: Instance(str(each.instance_id), _host_in(each.transport))
        for each in instances
        if each.endpoint == ENDPOINT
        and namespace in (None, each.namespace)
        and component in (None, each.component)
        and 0 <= each.instance_id < 2**64
    }
    return tuple(found[number] for number in sorted(found)[:MOST_INSTANCES])


def _host_in(transport: object) -> str | None:
    """``{"tcp": "10.0.0.5:38519/..."}``, of the request plane over TCP; NATS has subjects, and no hosts."""
    address = transport.get("tcp") if isinstance(transport, dict) else None
    if not isinstance(address, str):
        return None
    host, colon, _ = address.partition("/")[0].rpartition(":")
    host = host.strip("[]")
    return host if colon and _HOST.fullmatch(host) else None
