"""Decides at its beginning whether a request is traced.

1. A caller that has decided already is followed: what it samples is sampled, what it does not is not.
2. Else a share of the traces is, by their ids, so that all gateways and engines would say the same of one trace
   (``TraceIdRatioBased`` of OpenTelemetry).
3. A request that is not sampled tells its worker so: an engine that traces would else sample by itself.
"""

import random
from collections.abc import Callable

from gateway.incoming import Incoming
from gateway.tracing.content import Content
from gateway.tracing.context import TRACEPARENT, context_in, traceparent
from gateway.tracing.trace import Trace

_LOW = 2**64 - 1  # the bits of a trace id that the ratio looks at


class Tracers:
    """The tracer of requests from now on: settings that change may want another."""

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current: Tracer | None = None
        """None: nothing is traced."""


class Tracer:
    """Begins the traces of requests. *ratio* is the share of those that nobody has decided on yet."""

    def __init__(
        self,
        ratio: float,
        *,
        most_content_bytes: int,
        keeps_content: Callable[[str | None], bool],
        may_keep_content: bool,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """*keeps_content* says whether prompts and answers of a team, None: of nobody's, are told to somebody, and
        *may_keep_content* whether that is so of any. *wall_clock* gives seconds since 1970.
        """
        self._bound = round(ratio * 2**64)
        self._most_content_bytes = most_content_bytes
        self._keeps_content = keeps_content
        self._may_keep_content = may_keep_content
        self._clock = clock
        self._wall_clock = wall_clock
        self._rng = rng

    def begin(self, incoming: Incoming, began: float) -> Trace | None:
        """The trace of *incoming*, which came at *began* (monotonic seconds); None: it is not traced."""
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
            content=Content(self._most_content_bytes) if self._may_keep_content else None,
            keeps_content=self._keeps_content,
            clock=self._clock,
            new_span_id=self._new_span_id,
        )

    def _new_span_id(self) -> int:
        return self._new_id(64)

    def _new_id(self, bits: int) -> int:
        """Any but 0, which stands for none."""
        return self._rng.getrandbits(bits) or 1
