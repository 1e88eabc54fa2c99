"""Failures that the picker's callers can get while programs fail, and the faults that explain them.

1. A worker that is killed breaks the requests that it has. Envoy does not continue them.
2. A picker that is killed breaks the requests that it has. New requests fail until Envoy's health check notices it.
3. Nothing that is drained breaks a request: workers, pickers and Envoys.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["worker killed", "worker drained", "picker killed", "picker drained", "Envoy drained"]
KINDS: Final[Sequence[Kind]] = ("worker killed", "worker drained", "picker killed", "picker drained", "Envoy drained")
NOTICED_S: Final[Mapping[Kind, float]] = {"worker killed": 3.0, "picker killed": 5.0}
"""Seconds after a fault during which new requests can fail: until health checks have noticed it. Faults that are not
listed explain no failure.
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault that was caused. Times are in seconds since the start of the run."""

    kind: Kind
    at: float
    who: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Request of one caller."""

    began: float
    ended: float
    result: str
    """`right`, or the kind of the failure, such as `status 500` or `cut`."""

    @property
    def is_failure(self) -> bool:
        return self.result != "right"


def cause_of(outcome: Outcome, faults: Iterable[Fault]) -> Kind | None:
    """Return the kind of the latest fault that explains the failure *outcome*, or None if no fault explains it.

    Wrong answers have no explanation: whatever fails, a complete answer must be right.
    """
    if outcome.result.startswith("wrong"):
        return None
    found: Kind | None = None
    for fault in faults:
        noticed_s = NOTICED_S.get(fault.kind)
        if noticed_s is not None and outcome.began <= fault.at + noticed_s and fault.at <= outcome.ended:
            found = fault.kind
    return found
