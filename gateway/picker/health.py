"""Health service of gRPC (grpc.health.v1), which Kubernetes and Envoy ask."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc

SERVICE: Final = "grpc.health.v1.Health"
_SERVING: Final = b"\x08\x01"
_NOT_SERVING: Final = b"\x08\x02"
_UNKNOWN: Final = b"\x08\x03"
_NAMES: Final = frozenset(
    {"", "liveness", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor", "inference-extension"}
)
"""Services whose health other programs ask: the process, the picker, and the name in the Gateway API project."""


class HealthService:
    """Health of the picker. It serves requests until it stops."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Report that the picker stops, except for the liveness."""
        self._stopped.set()

    def handler(self) -> Any:
        """Return the handler of the service for a gRPC server."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Check": grpc.unary_unary_rpc_method_handler(self._check, _service_in, bytes),
                "Watch": grpc.unary_stream_rpc_method_handler(self._watch, _service_in, bytes),
            },
        )

    async def _check(self, service: str, context: Any) -> bytes:
        if service not in _NAMES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return self._state(service)

    async def _watch(self, service: str, _: Any) -> AsyncIterator[bytes]:
        yield self._state(service) if service in _NAMES else _UNKNOWN
        await self._stopped.wait()
        yield self._state(service) if service in _NAMES else _UNKNOWN

    def _state(self, service: str) -> bytes:
        return _NOT_SERVING if self._stopped.is_set() and service != "liveness" else _SERVING


def _service_in(message: bytes) -> str:
    """Return the name in a message of the type ``HealthCheckRequest``, whose only field is the name."""
    if message[:1] != b"\x0a" or len(message) < 2 or message[1] > 0x7F:
        return ""
    return message[2 : 2 + message[1]].decode("utf-8", "replace")
