"""Parser for the ``/health`` response of a Dynamo frontend, which lists its workers (ai-dynamo 1.6.1)."""

import re

import msgspec

from gateway.workers.shared_address.address_report import Instance

ENDPOINT = "generate"
"""Name of the Dynamo endpoint for inference requests. Other endpoints of a worker are for Dynamo's indexer."""
MAX_INSTANCES = 4096
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
    """Return the workers in the response to ``GET /health``, ordered by id, or None if the response is malformed.

    *namespace* and *component* restrict the result to matching workers.
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
    return tuple(found[number] for number in sorted(found)[:MAX_INSTANCES])


def _host_in(transport: object) -> str | None:
    """Return the host in a TCP transport such as ``{"tcp": "10.0.0.5:38519/..."}``, or None for other transports."""
    address = transport.get("tcp") if isinstance(transport, dict) else None
    if not isinstance(address, str):
        return None
    host, colon, _ = address.partition("/")[0].rpartition(":")
    host = host.strip("[]")
    return host if colon and _HOST.fullmatch(host) else None
