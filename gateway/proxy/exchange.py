"""Collect facts about a request for its response headers, its log line and its metrics."""

from typing import Final, Literal

from gateway.backends.delivery import Delivery
from gateway.models.model import Model
from gateway.models.routes.route import RouteChoice
from gateway.protocol.interruption import Interruption
from gateway.protocol.usage import Usage
from gateway.proxy.decision import Decision
from gateway.proxy.response_cache.response_cache import Claim
from gateway.proxy.tracing.trace import Trace
from gateway.tenancy.ledger.entry import NANO, Entry
from gateway.tenancy.ledger.price import Price
from gateway.tenancy.ledger.recorder import to_nano
from gateway.tenancy.quota.plan import Tokens
from gateway.tenancy.quota.quota import Reservation
from gateway.tenancy.teams.caller import Caller
from routing.candidate import Source
from routing.explanation import Reason
from routing.request import Request

MAX_FAILURES: Final = 16
"""Maximum number of failed attempts to keep for the receipt of a request."""


class Account:
    """Reservation of one request, which is settled when the request ends."""

    __slots__ = ("caller", "in_background", "model", "reservation")

    reservation: Reservation
    """Granted reservation, set before the account is attached to a request."""

    def __init__(self, caller: Caller, model: Model | None) -> None:
        self.caller = caller
        self.model = model
        """Requested model, or None if the request names no known model."""
        self.in_background = False
        """Whether the worker continues to generate after it has answered."""

    @property
    def price_share(self) -> float:
        """Share of the price that the caller pays if a worker answers: less than 1 for lines of batches."""
        return self.model.pricing.batch_share if self.model is not None and self.caller.is_batch else 1.0

    def __call__(self, expected: Tokens) -> Entry | None:
        """Return the ledger entry of a request that is never settled, for the reserved tokens *expected*, or None if
        the sender of the request writes the entry.

        A subclass in `gateway.proxy.admission` implements this method. A compiled class can be called only if its base
        class can be called too.
        """
        raise NotImplementedError


class Exchange:
    """Facts about a request, recorded while it is served. Times are monotonic seconds. The prompt and the API key are
    never stored.
    """

    team: str | None = None
    key: str | None = None
    """Public id of the caller's API key."""
    user: str | None = None
    """End user that the caller named, or None."""
    model_asked: str | None = None
    """Model name in the request."""
    model: str | None = None
    """Configured name of the model, or None until the model is found."""
    choice: RouteChoice | None = None
    """Reason for the choice of the model if the requested name stands for several models, or None."""
    strategy: str | None = None
    reason: Reason | None = None
    streams: bool = False
    request: Request | None = None
    """Request in the form for routing, or None until the prompt was hashed. It contains no text."""
    backend: str | None = None
    """Id of the backend that answered or that was tried last."""
    served_by: str = "worker"
    """Kind of the backend that answered or that was tried last, such as `worker`."""
    prefill_worker: str | None = None
    """Prefill worker that computed the prompt or was tried last, or None if the answering worker computed it."""
    prefill: Literal["remote", "here", "failed"] | None = None
    """Place where the prompt was computed: `remote` for a prefill worker, `here` for the worker that answers, or
    `failed` for the worker that answers after prefill workers failed. The value is None if the model has no prefill
    workers.
    """
    fell_back: bool = False
    """Whether a fallback answered the request."""
    price: Price | None = None
    """Price of the fallback that answered, or the price in the header with the cost, or None if the model's current
    price applies.
    """
    hit_blocks: int = 0
    hit_tokens: float = 0.0
    """Number of prompt tokens that the chosen worker was predicted to have in its cache."""
    hit_source: Source | None = None
    runs: bool = False
    """Whether the request counts against `server.max_concurrent_requests`."""
    shows_cost: bool = False
    """Whether a response header reports the cost of the answer, unless the answer is streamed."""
    answer_usd: float | None = None
    """Cost of the answer in US dollars for the response header, or None if the header is not sent."""
    shows_hits: bool = True
    """Whether to show cache hits to the caller and in traces, because they reveal nothing about other teams."""
    queued_s: float = 0.0
    """Seconds that the request waited in the queue for a free worker."""
    predicted_ttft_s: float | None = None
    """Predicted seconds from arrival to the first token on the worker that was tried last, or None if no worker was
    tried.
    """
    regret_s: float | None = None
    """Difference in seconds between the predicted time to first token on the chosen worker and on the best candidate.
    It is 0 for the best candidate.
    """
    prompt_blocks: int = 0
    prompt_tokens: float = 0.0
    """Number of prompt tokens, exact or estimated, before the engine reports its count."""
    streamed_events: int = 0
    entries: list[Entry] | None = None
    """List for the ledger entry if the sender of the request writes the entry, or None if the settlement writes it."""
    limits_left: tuple[tuple[bytes, bytes], ...] = ()
    """Response headers that report how much is left of the caller's limits."""
    attempts: int = 0
    sent_at: float | None = None
    """Monotonic time in seconds at which the request was last sent to a backend, or None."""
    estimated_tokens: int | None = None
    """Number of completion tokens that are charged by an estimate, because the engine did not report the number."""
    continued: int = 0
    """Number of times that another worker continued the stream."""
    status: int = 0
    """HTTP status that the caller received, or 499 if the caller disconnected first."""
    error: str | None = None
    """Name of the error: a class name in `gateway.protocol.errors`, `Refused` for a 4xx status of a worker, or
    `CallerGone`.
    """
    guardrails: tuple[str, ...] = ()
    """Guardrails that acted on the request, each with direction and action, as in `pii:request:redact`."""
    refused_by: str | None = None
    """Limit that the request would exceed, as scope and unit, such as `key/tokens_per_minute`."""
    first_byte: float | None = None
    usage: Usage | None = None
    account: Account | None = None
    """Account to settle at the end of the request, or None before the reservation and after the settlement."""
    cost_usd: float = 0.0
    saved_usd: float = 0.0
    """Savings in US dollars, because cached prompt tokens cost less than computed ones."""
    keeps_decision: bool = False
    """Whether the routing decision and failed attempts are kept, for the receipt of the request."""
    decision: Decision | None = None
    """Last routing decision before the first byte of the answer, or None without a decision or if none are kept."""
    failures: tuple[tuple[str, str], ...] = ()
    """Backends that failed, each with the name of the error, if they are kept. The last backend is included only if
    it failed before another attempt or after its first byte.
    """
    session: bytes | None = None
    """Session as workers receive it (see `engine_session`), or None if the request names no session."""
    claim: Claim | None = None
    """Claim on the cache of responses if the answer of the request may be kept, or None."""
    interruption: Interruption | None = None
    """Way for the sender of the request to interrupt it, or None."""
    delivery: Delivery | None = None
    """Delivery of the request by a server in front of the gateway, or None if the gateway itself sends the request."""
    trace: Trace | None = None
    """Trace of the request, or None if the request is not traced. Only the trace is allowed to keep a prompt, for
    configured trace receivers.
    """

    def __init__(self, request_id: bytes, path: str, started: float) -> None:
        self.request_id = request_id
        self.path = path
        self.started = started

    def enter(self, phase: str | None) -> None:
        """End the current phase in the trace, and begin *phase* unless it is None. If the request is not traced, do
        nothing.
        """
        if self.trace is not None:
            self.trace.enter(phase)

    def note_failure(self, backend: str, error: str) -> None:
        """Keep that *backend* failed with the error named *error*, if failures are kept."""
        if self.keeps_decision and len(self.failures) < MAX_FAILURES:
            self.failures = (*self.failures, (backend, error))

    def show_cost(self, price: Price, usage: Usage) -> None:
        """Set the cost of an answer with *usage* for the response header, unless *price* is not configured."""
        if price.is_set:
            self.price = price  # the ledger charges the same price, even if the current price changes meanwhile
            usd = price.cost_usd(usage.prompt_tokens, usage.cached_tokens or 0, usage.completion_tokens)
            self.answer_usd = to_nano(usd) / NANO

    def began(self, now: float) -> None:
        """Record *now* as the time of the first useful byte of the stream, unless an earlier time was recorded."""
        if self.first_byte is None:
            self.first_byte = now
