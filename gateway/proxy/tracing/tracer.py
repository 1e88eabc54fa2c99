"""Decide whether to trace a request when it arrives.

1. The caller's sampling decision is followed if there is one.
2. If the caller made no decision, a fraction of the requests is sampled by trace id (``TraceIdRatioBased`` of
   OpenTelemetry). All gateways and engines then make the same decision.
3. If a request is not sampled, its worker receives that decision, so that the engine does not make its own decision.
"""

import random
from collections.abc import Callable

from gateway.proxy.incoming import Incoming
from gateway.proxy.tracing.content import Content
from gateway.proxy.tracing.context import TRACEPARENT, context_in, traceparent
from gateway.proxy.tracing.trace import Trace

_LOW = 2**64 - 1  # the bits of a trace id that decide


class Tracers:
    """Holder of the tracer for new requests. A reload of the settings can replace the tracer."""

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current: Tracer | None = None
        """Tracer for new requests, or None if no request is traced."""


class Tracer:
    """Tracer that begins the traces of requests. If a caller makes no sampling decision, the fraction *ratio* of its
    requests is sampled.
    """

    def __init__(
        self,
        ratio: float,
        *,
        max_content_bytes: int,
        keeps_content: Callable[[str | None], bool],
        may_keep_content: bool,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """Create a tracer. The function *keeps_content* returns whether a trace receiver gets the prompts and answers
        of a team (None stands for requests without a team).

        If *may_keep_content* is false, no trace receiver gets prompts and answers of any team. The function
        *wall_clock* returns seconds since 1970.
        """
        self._bound = round(ratio * 2**64)
        self._max_content_bytes = max_content_bytes
        self._keeps_content = keeps_content
        self._may_keep_content = may_keep_content
        self._clock = clock
        self._wall_clock = wall_clock
        self._rng = rng

    def begin(self, incoming: Incoming, began: float) -> Trace | None:
        """Return the trace of the request *incoming*, which arrived at the monotonic time *began*, or None if the
        request is not traced.
        """
        parent = context_in(incoming.fields, incoming.all_of)
        if parent is None:
            trace_id = self._new_id(128)
            if trace_id & _LOW >= self._bound:
                incoming.add(TRACEPARENT, traceparent(trace_id, self._new_id(64), is_sampled=False))
                return None
        elif not parent.is_sampled:
            return None
        else:
            trace_id = parent.trace_id
        host = incoming.text_of(b"host")
        return Trace(
            trace_id,
            parent,
            began=began,
            wall_s=self._wall_clock() - (self._clock() - began),
            host=host,
            content=Content(self._max_content_bytes) if self._may_keep_content else None,
            keeps_content=self._keeps_content,
            clock=self._clock,
            new_span_id=self._new_span_id,
        )

    def _new_span_id(self) -> int:
        return self._new_id(64)

    def _new_id(self, bits: int) -> int:
        """Return a random id of *bits* bits other than 0."""
        return self._rng.getrandbits(bits) or 1
