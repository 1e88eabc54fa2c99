"""The facts about one request, collected for its response headers, its log line and its metrics."""

from typing import Literal

from gateway.models.model import Model
from gateway.models.routes.route import RouteChoice
from gateway.protocol.usage import Usage
from gateway.proxy.tracing.trace import Trace
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.price import Price
from gateway.tenancy.quota.plan import Tokens
from gateway.tenancy.quota.quota import Reservation
from gateway.tenancy.teams.caller import Caller
from routing.candidate import Source
from routing.explanation import Reason


class Account:
    """The reservation of a request, which is settled when it ends."""

    __slots__ = ("caller", "in_background", "model", "reservation")

    reservation: Reservation
    """Set before an exchange holds the account."""

    def __init__(self, caller: Caller, model: Model | None) -> None:
        self.caller = caller
        self.model = model
        """Requested model; None if the request has no model or an unknown one."""
        self.in_background = False
        """The worker generates after it has answered."""

    def __call__(self, expected: Tokens) -> Entry:
        """Return the ledger entry of a request that is never settled, for the *expected* tokens that it reserved.

        `gateway.proxy.admission` implements it. Once compiled, a class can only be called if its base can.
        """
        raise NotImplementedError


class Exchange:
    """Filled in while the request is served; times are monotonic seconds. It never holds the prompt or a key."""

    team: str | None = None
    key: str | None = None
    """Public id of the caller's key."""
    user: str | None = None
    """The end user that the caller named."""
    model_asked: str | None = None
    """The model name in the request."""
    model: str | None = None
    """The configured name; None until the model is found."""
    choice: RouteChoice | None = None
    """The reason for this model, if routes map the requested name to several models."""
    strategy: str | None = None
    reason: Reason | None = None
    streams: bool = False
    backend: str | None = None
    """The backend that answers, or was tried last."""
    served_by: str = "worker"
    """The kind of that backend."""
    prefill_worker: str | None = None
    """The worker that computed the prompt, or was tried last, if another worker answers."""
    prefill: Literal["remote", "here", "failed"] | None = None
    """The place of the prefill: a prefill worker; the worker that answers; or that one because prefill workers failed.
    None if the model does not divide its requests."""
    fell_back: bool = False
    """A fallback answered."""
    price: Price | None = None
    """The price of the fallback that answered; None: the prices of the model apply."""
    hit_blocks: int = 0
    hit_tokens: float = 0.0
    """Prompt tokens that the chosen worker was predicted to have cached."""
    hit_source: Source | None = None
    runs: bool = False
    """The request counts against `server.max_concurrent_requests`."""
    shows_hits: bool = True
    """Caller and traces may see hits, because none is on a prompt of another team."""
    queued_s: float = 0.0
    """Time in the queue, until a worker was free for it."""
    predicted_ttft_s: float | None = None
    """Time from arrival to first token, predicted when the last worker was asked; None if none was."""
    regret_s: float | None = None
    """Distance to the prediction for the best candidate; 0 if the best one was asked."""
    prompt_blocks: int = 0
    prompt_tokens: float = 0.0
    """Tokens of the prompt, exact or estimated, before the engine counts them."""
    streamed_events: int = 0
    limits_left: tuple[tuple[bytes, bytes], ...] = ()
    """Response headers with the room left in the caller's limits."""
    attempts: int = 0
    sent_at: float | None = None
    """The time at which the last backend was asked."""
    estimated_tokens: int | None = None
    """Completion tokens that are charged by an estimate from time and generation rate, because none were counted."""
    continued: int = 0
    """Number of times another worker took over the stream."""
    status: int = 0
    """The status that the caller got; 499 if it disconnected before that."""
    error: str | None = None
    """Name of the error: a class of `gateway.protocol.errors`, or Refused (4xx of a worker), or CallerGone."""
    guardrails: tuple[str, ...] = ()
    """The guardrails that acted, each with its direction and action: ``pii:request:redact``."""
    refused_by: str | None = None
    """The limit that had no room: its scope and its unit, as in ``key/tokens_per_minute``."""
    first_byte: float | None = None
    usage: Usage | None = None
    account: Account | None = None
    """The account to settle; None before the reservation and after settling."""
    cost_usd: float = 0.0
    saved_usd: float = 0.0
    """Additional cost of the cached tokens if they had to be computed."""
    trace: Trace | None = None
    """None if the request is not traced. Only here may a prompt be kept, for configured receivers of traces."""

    def __init__(self, request_id: bytes, path: str, started: float) -> None:
        self.request_id = request_id
        self.path = path
        self.started = started

    def enter(self, phase: str | None) -> None:
        """Begin *phase* in the trace, if there is one, and end the one before; None begins none."""
        if self.trace is not None:
            self.trace.enter(phase)

    def began(self, now: float) -> None:
        """Note the first useful byte of a stream. It came earlier if another worker has taken the stream over."""
        if self.first_byte is None:
            self.first_byte = now
