"""Gateways with three workers whose use of caches is observed."""

from collections.abc import Mapping

from cache_index import RadixTree, WorkerId
from gateway.models.model import Model
from gateway.protocol.usage import Usage
from gateway.proxy.completed_requests import CompletedRequest
from gateway.proxy.tracing.content import Content
from gateway.telemetry.caches.cache_activity import CacheActivity
from gateway.telemetry.caches.prefix_words import PrefixWords
from gateway.workers.kv_events.counters import StreamCounters
from gateway.workers.kv_events.feed import Trust
from routing.request import Request
from tests.fakes.backends import Answers
from tests.gateway.examples import Clock, a_model, an_ended_request, the_models
from tests.gateway.telemetry.trace_export.examples import a_trace
from tests.routing.confirmed_examples import reporting_fleet
from tests.routing.examples import BLOCK_BYTES, A, B, C, an_index


class Streams:
    """Event streams with the states and the counters that a test gives them."""

    def __init__(self, counters: Mapping[WorkerId, StreamCounters] | None = None) -> None:
        self.result = counters or {}

    def state(self, worker: WorkerId) -> Trust | None:
        return self.result[worker].trust if worker in self.result else None

    def counters(self) -> Mapping[WorkerId, StreamCounters]:
        return self.result


class Observed:
    """A model with the workers a, b and c, at 100 s by the gateway's clock and 1,000 s by the wall clock."""

    def __init__(
        self, *, trusted: bool = False, streams: Streams | None = None, words: PrefixWords | None = None
    ) -> None:
        self.clock, self.wall_clock = Clock(), Clock(1000.0)
        self.index: RadixTree = an_index()
        fleet, self.confirmed = reporting_fleet(A, B, C, trusted=trusted, index=self.index)
        self.model: Model = a_model(Answers(), Answers(), Answers(), fleet=fleet)
        self.streams = streams or Streams()
        self.activity = CacheActivity(
            the_models(self.model),
            self.streams,
            self.index,
            block_bytes=BLOCK_BYTES,
            clock=self.clock,
            wall_clock=self.wall_clock,
            words=words,
        )

    def answered(self, request: Request, worker: str = "a", **known: object) -> CompletedRequest:
        """*request*, answered by *worker*, without any cached tokens unless a test says otherwise."""
        usage = Usage(int(request.prompt_tokens), 1, 0)
        facts = {"model": "tiny", "strategy": "kv_aware", "usage": usage, "first_byte": 101.0, "backend": worker}
        return an_ended_request(self.clock.now, request=request, **{**facts, **known})

    def recorded(self, request: Request, team: str, text: str) -> CompletedRequest:
        """*request* of *team*, whose prompt begins with *text* and was recorded."""
        content = Content(100)
        content.asked(b"{}", text.encode())
        return self.answered(request, team=team, trace=a_trace(content=content))
