"""Faults that a worker can be given.

    refuse              the connection is reset before any byte of an answer
    hang                the request is read and never answered
    status              an error of that status, in the engine's shape
    error_event         an error of that status, for a stream as an event, after 200 and so many tokens
    abort_mid_stream    the connection is cut after so many tokens
    silent              so many tokens, then nothing for *seconds*, then the rest; 0: nothing before the first byte;
                        the engine generates meanwhile, as where a parser holds tokens back
    drip                a stream leaves in pieces of *drip_bytes*, events and characters cut anywhere
    shutting_down       200 with empty text and finish_reason abort, as vLLM after SIGTERM
    engine_dead         the process lives: /health is 503, and every inference request gets a 500
    slow                everything takes *factor* times as long
    stuck               the engine generates nothing, for whatever request, until another fault is set
    freeze              nothing leaves the worker for *seconds*, as after SIGSTOP; then it is well again

1. Without a count, `refuse` and `hang` take the whole worker, health and metrics included; only /control stays.
2. With a count, a fault affects that many inference requests and nothing else, then the worker is well again.
3. `slow`, `stuck`, `freeze` and `engine_dead` have no count: they are the worker's, not a request's.
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
_WITHOUT_COUNT = {"slow": "the pace", "stuck": "the state", "freeze": "the state", "engine_dead": "the state"}


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON that /control/faults takes and gives."""

    mode: FaultMode
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] = 500
    after_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Defaults: 5 for `abort_mid_stream`, 1 for `silent`, 0 for `error_event`."""
    seconds: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 1.0
    drip_bytes: Annotated[int, msgspec.Meta(ge=1)] = 3
    factor: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    count: Annotated[int, msgspec.Meta(ge=1)] | None = None

    @property
    def strikes_after(self) -> int:
        """Output tokens of a request before the fault shows."""
        return _DEFAULT_AFTER_TOKENS.get(self.mode, 0) if self.after_tokens is None else self.after_tokens


NO_FAULT = Fault("none")


class Faults:
    """The fault in force, and how many more requests it is for."""

    def __init__(self) -> None:
        self._fault = NO_FAULT
        self._remaining: int | None = None

    def set(self, fault: Fault) -> None:
        """Raises `ValueError` for a combination that has no meaning."""
        if fault.mode in _WITHOUT_COUNT and fault.count is not None:
            raise ValueError(
                f"count: {fault.mode} is {_WITHOUT_COUNT[fault.mode]} of the whole worker and takes no count"
            )
        self._fault = fault
        self._remaining = fault.count

    @property
    def in_force(self) -> Fault:
        """The fault, its count being what is left of it; `NO_FAULT` once that is used up."""
        if self._remaining == 0:
            return NO_FAULT
        return msgspec.structs.replace(self._fault, count=self._remaining)

    @property
    def whole_worker(self) -> FaultMode:
        """``refuse`` or ``hang`` while every request but those to /control meets it, else ``none``."""
        if self._fault.mode in ("refuse", "hang") and self._fault.count is None:
            return self._fault.mode
        return "none"

    @property
    def is_engine_dead(self) -> bool:
        return self._fault.mode == "engine_dead"

    @property
    def slow_factor(self) -> float:
        """Factor by which everything takes longer; infinity: the engine stands still."""
        if self._fault.mode == "stuck":
            return math.inf
        return self._fault.factor if self._fault.mode == "slow" else 1.0

    def end(self, mode: FaultMode) -> None:
        """The worker is well again, if it still suffers from *mode*."""
        if self._fault.mode == mode:
            self.set(NO_FAULT)

    def take(self) -> Fault:
        """The fault that the inference request meets which has just come; counts it."""
        fault = self.in_force
        if self._remaining:
            self._remaining -= 1
        return fault
