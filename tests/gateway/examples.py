"""Models and bodies for the gateway's tests: what a test does not name is plain and the same everywhere."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from cache_index import WorkerId
from gateway.backends.backend import Backend, Call
from gateway.backends.fallbacks.fallback import Fallback
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.backends.fallbacks.target import Target, TargetKey
from gateway.models.dispatch_queue import DispatchQueue
from gateway.models.model import ContinuationMode, Model
from gateway.models.model_names import ModelNames
from gateway.models.objectives import ModelObjectives
from gateway.models.prefill_decode_plan import PrefillDecodePlan
from gateway.models.registry import Models
from gateway.models.response_caching import ResponseCaching
from gateway.models.rewrites import ModelRewrites
from gateway.proxy.completed_requests import CompletedRequest
from gateway.proxy.exchange import Exchange
from gateway.tenancy.ledger.price import Price
from gateway.workers.draining import Draining
from routing.booking import Booking, Ending, Outcome
from routing.candidate import Candidate
from routing.dispatcher import Dispatcher, Immediate
from routing.fleet import Fleet
from routing.request import Request
from routing.retry_budget import RetryBudget
from routing.strategy import Ranking, Strategy
from tests.fakes.backends import Fake
from tests.routing.examples import BLOCK_BYTES, HASHER, a_fleet, an_index, only

CHAT = b'{"model":"tiny","messages":[{"role":"user","content":"hello"}]}'
CHAT_STREAM = b'{"model":"tiny","stream":true,"messages":[{"role":"user","content":"hello"}]}'

HELLO = b'data: {"choices":[{"delta":{"content":"Hello"}}]}\n\n'
WORLD = b'data: {"choices":[{"delta":{"content":" world"}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":null}}\n\n'
ERROR = b'data: {"error":{"message":"out of memory","type":"server_error"}}\n\n'
DONE = b"data: [DONE]\n\n"
WHOLE = b'{"choices":[{"message":{"content":"Hello"}}],"usage":{"prompt_tokens":7,"completion_tokens":2}}'


LETTERS = "abcdefghij"


class Clock:
    """Shows the time that it was set to, in seconds."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class _Records:
    """A `BookingObserver` that keeps what it is notified of."""

    def __init__(self) -> None:
        self.bookings: list[Booking] = []
        self.releases: list[tuple[Booking, Outcome]] = []

    def booked(self, booking: Booking) -> None:
        self.bookings.append(booking)

    def first_byte(self, booking: Booking) -> None:
        """Not kept."""

    def released(self, booking: Booking, outcome: Outcome) -> None:
        self.releases.append((booking, outcome))


class WatchedFleet(Fleet):
    """Workers a, b, c ... at time 0, with a record of the outcome of every booking."""

    def __init__(self, workers: int) -> None:
        self._records = _Records()
        super().__init__(an_index(), block_bytes=BLOCK_BYTES, prefill_tokens_per_s=1000.0, observer=self._records)
        self.set_workers([WorkerId(letter) for letter in LETTERS[:workers]], 0.0)

    @property
    def booked(self) -> list[Booking]:
        return self._records.bookings

    @property
    def released(self) -> list[Booking]:
        return [booking for booking, _ in self._records.releases]

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for _, outcome in self._records.releases]

    @property
    def endings(self) -> list[tuple[str, Ending]]:
        return [(booking.worker, outcome.ending) for booking, outcome in self._records.releases]


class InGivenOrder:
    """A strategy without opinion: the first worker first."""

    is_late_bound: ClassVar[bool] = False
    ranks_by_cost: ClassVar[bool] = False
    accepts_any_worker: ClassVar[bool] = False
    needs_events: ClassVar[bool] = False

    def rank(self, request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
        return list(candidates)

    def explain(self, request: Request, candidates: Sequence[Candidate]) -> Ranking:
        return Ranking(list(candidates), "random")


def a_model(
    *workers: Fake,
    name: str = "tiny",
    upstream_name: str | None = None,
    fallback: Backend | None = None,
    fallback_price: Price | None = None,
    continuation: ContinuationMode = "off",
    retry_budget: RetryBudget | None = None,
    fleet: Fleet | None = None,
    dispatcher: Dispatcher | None = None,
    strategy: Strategy | None = None,
    strategy_name: str = "prefix_aware",
    allows_strategy_header: bool = False,
    clock: Clock | None = None,
    former: Model | None = None,
    price: Price | None = None,
    gpu_hour_usd: float | None = None,
    batch_discount: float = 0.0,
    prefill_decode: PrefillDecodePlan | None = None,
    response_caching: ResponseCaching | None = None,
    objectives: ModelObjectives | None = None,
    rewrites: ModelRewrites | None = None,
) -> Model:
    """A model whose workers are called a, b, c ... in the order given, and tried in it."""
    for letter, worker in zip(LETTERS, workers, strict=False):
        worker.id = letter
    index = an_index()
    by_id: Mapping[WorkerId, Fake] = {WorkerId(worker.id): worker for worker in workers}
    fleet = fleet or a_fleet(*by_id, index=index)
    dispatcher = dispatcher or Immediate(fleet, only(strategy or InGivenOrder()))
    return Model(
        name,
        upstream_name=upstream_name or name,
        strategy=strategy_name,
        allows_strategy_header=allows_strategy_header,
        session_header=b"x-session-id",
        hasher=HASHER,
        index=index,
        fleet=fleet,
        dispatch_queue=DispatchQueue(dispatcher, fleet, clock=clock or Clock()),
        workers=by_id,
        price=price,
        gpu_hour_usd=gpu_hour_usd,
        batch_discount=batch_discount,
        fallbacks=None
        if fallback is None
        else some_fallbacks(fallback, price=fallback_price or price or Price(), name=name),
        continuation=continuation,
        retry_budget=retry_budget,
        prefill_decode=prefill_decode,
        response_caching=response_caching,
        objectives=objectives,
        rewrites=rewrites,
        former=former,
    )


def some_fallbacks(*backends: Backend, price: Price = Price(), name: str = "tiny") -> Fallbacks:  # noqa: B008  # frozen
    """Fallbacks without any limits, for chats and completions."""
    fallbacks = [
        Fallback(
            backend=backend,
            kind="bedrock",
            target=Target(TargetKey("bedrock", "us-east-1", backend.id)),
            price=lambda: price,
            paths=frozenset({"/v1/chat/completions", "/v1/completions"}),
        )
        for backend in backends
    ]
    return Fallbacks(name, fallbacks)


def the_models(*models: Model, aliases: Mapping[str, Sequence[str]] | None = None) -> Models:
    """A registry of *models*; *aliases* by model name."""
    names = ModelNames((model.name, (aliases or {}).get(model.name, ())) for model in models)
    return Models({model.name: model for model in models}, names)


def a_draining(models: Models, *, clock: Clock | None = None) -> Draining:
    """Return the draining of *models*; streams are handed over after 30 s."""
    return Draining(models, hand_over_after_s=30.0, clock=clock or Clock())


def a_call(*, streams: bool = False) -> Call:
    return Call(b"POST", b"/v1/chat/completions", [], CHAT_STREAM if streams else CHAT, streams, "tiny")


def an_exchange(**known: object) -> Exchange:
    """An exchange that began at 100 s, with what is *known* of it."""
    exchange = Exchange(request_id=b"r-1", path="/v1/chat/completions", started=100.0)
    for name, value in known.items():
        setattr(exchange, name, value)
    return exchange


def an_ended_request(at: float, **known: object) -> CompletedRequest:
    """`an_exchange` that ended *at* so many seconds."""
    return CompletedRequest(an_exchange(**known), at)


def in_flight(model: Model) -> dict[str, int]:
    """Requests on each worker."""
    return {state.id: state.in_flight for state in model.fleet}
