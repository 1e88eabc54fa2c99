"""How a worker can be made to fail.

    refuse              the connection is reset before any byte of an answer
    hang                the request is read and never answered
    status              an error of that status, in vLLM's shape
    abort_mid_stream    the connection is cut after so many tokens
    slow                everything takes *factor* times as long

1. Without a count, `refuse` and `hang` take the whole worker, health and metrics included; only /control stays.
2. With a count, a fault affects that many completion requests and nothing else, then the worker is well again.
3. `slow` has no count: the pace is the worker's, not a request's.
"""

from typing import Annotated, Literal

import msgspec

FaultMode = Literal["none", "refuse", "hang", "status", "abort_mid_stream", "slow"]


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON that /control/faults takes and gives."""

    mode: FaultMode
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] = 500
    after_tokens: Annotated[int, msgspec.Meta(ge=0)] = 5
    factor: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    count: Annotated[int, msgspec.Meta(ge=1)] | None = None


NO_FAULT = Fault("none")


class Faults:
    """The fault in force, and how many more requests it is for."""

    def __init__(self) -> None:
        self._fault = NO_FAULT
        self._remaining: int | None = None

    def set(self, fault: Fault) -> None:
        """Raises `ValueError` for a combination that has no meaning."""
        if fault.mode == "slow" and fault.count is not None:
            raise ValueError("count: slow is the pace of the whole worker and takes no count")
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
    def slow_factor(self) -> float:
        return self._fault.factor if self._fault.mode == "slow" else 1.0

    def take(self) -> Fault:
        """The fault that the completion request meets which has just come; counts it."""
        fault = self.in_force
        if self._remaining:
            self._remaining -= 1
        return fault
