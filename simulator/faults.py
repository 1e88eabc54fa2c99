"""Faults that a test can inject into a worker.

    refuse              resets the connection before the first byte of an answer
    hang                reads the request and never answers it
    status              returns an error with status *status*, in the engine's format
    error_event         returns an error with status *status*, in a stream as an event after *after_tokens* tokens
    abort_mid_stream    closes the connection after *after_tokens* tokens
    silent              pauses the output for *seconds* after *after_tokens* tokens, before the first byte if it is 0;
                        the engine continues to generate, as if a parser held back the tokens
    drip                sends a stream in pieces of *drip_bytes* bytes, which may split events and characters
    shutting_down       returns status 200 with empty text and finish_reason abort, like vLLM after SIGTERM
    engine_dead         returns 503 for /health and 500 for every inference request, while the process keeps running
    slow                makes all work take *factor* times as long
    stuck               lets the engine generate nothing until another fault is set
    freeze              sends no data for *seconds*, as after SIGSTOP, and then ends by itself

1. Without a count, `refuse` and `hang` affect all requests, including health and metrics, except requests to /control.
2. With a count, a fault affects only that many inference requests, and then ends.
3. `slow`, `stuck`, `freeze` and `engine_dead` accept no count, because they affect the worker and not single requests.
"""

import math
from typing import Annotated, Literal

import msgspec

FaultMode = Literal[
    "none",
    "refuse",
    "hang",
    "status",
    "error_event",
    "abort_mid_stream",
    "silent",
    "drip",
    "shutting_down",
    "engine_dead",
    "slow",
    "stuck",
    "freeze",
]

_DEFAULT_AFTER_TOKENS = {"abort_mid_stream": 5, "silent": 1}  # the others strike at once
_WITHOUT_COUNT = frozenset({"slow", "stuck", "freeze", "engine_dead"})


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Injected fault as JSON, as set and returned by /control/faults."""

    mode: FaultMode
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] = 500
    after_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Number of output tokens before the fault takes effect. The default is 5, 1 or 0, depending on the fault's mode.
    """
    seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 1.0
    drip_bytes: Annotated[int, msgspec.Meta(ge=1)] = 3
    factor: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    count: Annotated[int, msgspec.Meta(ge=1)] | None = None

    @property
    def strikes_after(self) -> int:
        """Number of output tokens that a request gets before the fault takes effect."""
        return _DEFAULT_AFTER_TOKENS.get(self.mode, 0) if self.after_tokens is None else self.after_tokens


NO_FAULT = Fault("none")


class Faults:
    """Current fault of the worker, and the number of requests that the fault still affects."""

    def __init__(self) -> None:
        self._fault = NO_FAULT
        self._remaining: int | None = None

    def set(self, fault: Fault) -> None:
        """Set the current fault. Raises `ValueError` if the combination of fields is invalid."""
        if fault.mode in _WITHOUT_COUNT and fault.count is not None:
            raise ValueError(f"count: {fault.mode} affects the whole worker and accepts no count")
        self._fault = fault
        self._remaining = fault.count

    @property
    def in_force(self) -> Fault:
        """Current fault with its remaining number of requests, or `NO_FAULT` once that number is used up."""
        if self._remaining == 0:
            return NO_FAULT
        return msgspec.structs.replace(self._fault, count=self._remaining)

    @property
    def whole_worker(self) -> FaultMode:
        """Return ``refuse`` or ``hang`` while this affects all requests except to /control, and else ``none``."""
        if self._fault.mode in ("refuse", "hang") and self._fault.count is None:
            return self._fault.mode
        return "none"

    @property
    def is_engine_dead(self) -> bool:
        return self._fault.mode == "engine_dead"

    @property
    def slow_factor(self) -> float:
        """Factor by which all work of the engine is slowed down. Infinity means that the engine stands still."""
        if self._fault.mode == "stuck":
            return math.inf
        return self._fault.factor if self._fault.mode == "slow" else 1.0

    def end(self, mode: FaultMode) -> None:
        """End the current fault if the fault's mode is *mode*."""
        if self._fault.mode == mode:
            self.set(NO_FAULT)

    def take(self) -> Fault:
        """Return the fault for an inference request that has just arrived, and decrease its remaining number."""
        fault = self.in_force
        if self._remaining:
            self._remaining -= 1
        return fault
