"""A traced request that has ended, as it waits to be told of."""

import msgspec

from gateway.exchange import Exchange
from gateway.tracing.trace import Trace


class Ended(msgspec.Struct, frozen=True):
    exchange: Exchange
    trace: Trace
    at: float
    """Monotonic seconds."""
