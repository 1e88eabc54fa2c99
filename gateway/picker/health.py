"""Health service of gRPC (grpc.health.v1), which Kubernetes and Envoy ask."""

from typing import Final

from gateway.picker.http2.call import NOT_FOUND, GrpcCall

CHECK: Final = b"/grpc.health.v1.Health/Check"
"""Method that returns the health of a service."""
WATCH: Final = b"/grpc.health.v1.Health/Watch"
"""Method that returns the health of a service, and again when it changes."""
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
        self._is_stopped = False
        self._watches: set[_Watch] = set()

    def stop(self) -> None:
        """Report that the picker stops, except for the liveness. All watches end."""
        self._is_stopped = True
        for watch in list(self._watches):
            watch.stop()

    def check(self, call: GrpcCall) -> "_Check":
        """Return the handler of a call of the method `CHECK`."""
        return _Check(self, call)

    def watch(self, call: GrpcCall) -> "_Watch":
        """Return the handler of a call of the method `WATCH`."""
        watch = _Watch(self, call)
        self._watches.add(watch)
        return watch

    def forget(self, watch: "_Watch") -> None:
        """Note that *watch* has ended."""
        self._watches.discard(watch)

    def state(self, service: str) -> bytes | None:
        """Return the health of *service* as a message, or None if the service is unknown."""
        if service not in _NAMES:
            return None
        return _NOT_SERVING if self._is_stopped and service != "liveness" else _SERVING


class _Check:
    """Call of the method `CHECK`. Implements `gateway.picker.http2.call.Handler`."""

    is_full = False

    def __init__(self, health: HealthService, call: GrpcCall) -> None:
        self._health = health
        self._call = call

    def on_message(self, message: bytes) -> None:
        state = self._health.state(_service_in(message))
        if state is None:
            self._call.finish(NOT_FOUND, "unknown service")
        else:
            self._call.send([state])
            self._call.finish()

    def on_end(self) -> None:
        self._call.finish()

    def on_lost(self) -> None:
        """Do nothing, because the answer is sent at once."""


class _Watch:
    """Call of the method `WATCH`. Implements `gateway.picker.http2.call.Handler`."""

    is_full = False

    def __init__(self, health: HealthService, call: GrpcCall) -> None:
        self._health = health
        self._call = call
        self._service: str | None = None

    def on_message(self, message: bytes) -> None:
        if self._service is None:
            self._service = _service_in(message)
            self._report()

    def on_end(self) -> None:
        """Do nothing, because clients send only one message and then wait."""

    def on_lost(self) -> None:
        self._health.forget(self)

    def stop(self) -> None:
        """Report the health for the last time."""
        self._health.forget(self)
        self._report()
        self._call.finish()

    def _report(self) -> None:
        if self._service is not None:
            self._call.send([self._health.state(self._service) or _UNKNOWN])


def _service_in(message: bytes) -> str:
    """Return the name in a message of the type ``HealthCheckRequest``, whose only field is the name."""
    if message[:1] != b"\x0a" or len(message) < 2 or message[1] > 0x7F:
        return ""
    return message[2 : 2 + message[1]].decode("utf-8", "replace")
