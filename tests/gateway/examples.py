"""Models and bodies for the gateway's tests: what a test does not name is plain and the same everywhere."""

from collections.abc import Mapping, Sequence

from cache_index import WorkerId
from gateway.backends.backend import Backend, Call
from gateway.cascade.cascade import Cascade
from gateway.cascade.fallback import Fallback
from gateway.cascade.target import Target, TargetKey
from gateway.continuation.continuation import Mode
from gateway.disaggregation.division import Division
from gateway.draining import Draining
from gateway.endings import EndedRequest
from gateway.exchange import Exchange
from gateway.ledger.price import Price
from gateway.model import Model
from gateway.model_names import ModelNames
from gateway.models import Models
from gateway.turnstile import Turnstile
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


class WatchedFleet(Fleet):
    """Workers a, b, c ... at time 0; remembers how every booking ended."""

    def __init__(self, workers: int) -> None:
        super().__init__(an_index(), block_bytes=BLOCK_BYTES, prefill_tokens_per_s=1000.0)
        self.set_workers([WorkerId(letter) for letter in LETTERS[:workers]], 0.0)
        self.booked: list[Booking] = []
        self.released: list[Booking] = []
        self.outcomes: list[Outcome] = []

    def book(self, request: Request, candidate: Candidate, now: float) -> Booking | None:
        booking = super().book(request, candidate, now)
        if booking is not None:
            self.booked.append(booking)
        return booking

    def release(self, booking: Booking, outcome: Outcome, now: float) -> None:
        self.released.append(booking)
        self.outcomes.append(outcome)
        super().release(booking, outcome, now)

    @property
    def endings(self) -> list[tuple[str, Ending]]:
        return [(booking.worker, outcome.ending) for booking, outcome in zip(self.released, self.outcomes, strict=True)]


class InGivenOrder:
    """A strategy without opinion: the first worker first."""

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
    continuation: Mode = "off",
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
    division: Division | None = None,
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
        turnstile=Turnstile(dispatcher, fleet, clock=clock or Clock()),
        workers=by_id,
        price=price,
        gpu_hour_usd=gpu_hour_usd,
        cascade=None if fallback is None else a_cascade(fallback, price=fallback_price or price or Price(), name=name),
        continuation=continuation,
        retry_budget=retry_budget,
        division=division,
        former=former,
    )


def a_cascade(*backends: Backend, price: Price = Price(), name: str = "tiny") -> Cascade:  # noqa: B008  # frozen
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
    return Cascade(name, fallbacks)


def the_models(*models: Model, aliases: Mapping[str, Sequence[str]] | None = None) -> Models:
    """A registry of *models*; *aliases* by model name."""
    names = ModelNames((model.name, (aliases or {}).get(model.name, ())) for model in models)
    return Models({model.name: model for model in models}, names)


def a_draining(models: Models, *, clock: Clock | None = None) -> Draining:
    """Of *models*; streams are handed over after 30 s."""
    return Draining(models, hand_over_after_s=30.0, clock=clock or Clock())


def a_call(*, streams: bool = False) -> Call:
    return Call(b"POST", b"/v1/chat/completions", [], CHAT_STREAM if streams else CHAT, streams, "tiny")


def an_exchange(**known: object) -> Exchange:
    """An exchange that began at 100 s, with what is *known* of it."""
    exchange = Exchange(request_id=b"r-1", path="/v1/chat/completions", started=100.0)
    for name, value in known.items():
        setattr(exchange, name, value)
    return exchange


def an_ended_request(at: float, **known: object) -> EndedRequest:
    """`an_exchange` that ended *at* so many seconds."""
    return EndedRequest(an_exchange(**known), at)


def in_flight(model: Model) -> dict[str, int]:
    """Requests on each worker."""
    return {state.id: state.in_flight for state in model.fleet}
