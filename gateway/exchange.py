"""One request on its way through: what is known of it so far, for its headers, its log line and its metrics.

Classes with slots and no Structs: as `cache_index.value` says why.
"""

from typing import Literal

from gateway.ledger.entry import Entry
from gateway.ledger.price import Price
from gateway.model import Model
from gateway.quota.plan import Tokens
from gateway.quota.quota import Reservation
from gateway.rollout.route import Choice
from gateway.teams.caller import Caller
from gateway.tracing.trace import Trace
from gateway.usage import Usage
from routing.candidate import Source
from routing.reason import Reason


class Account:
    """What has to be settled when a request ends."""

    __slots__ = ("caller", "in_background", "model", "reservation")

    reservation: Reservation
    """Set before an exchange has it."""

    def __init__(self, caller: Caller, model: Model | None) -> None:
        self.caller = caller
        self.model = model
        """None: the request is about none, or about one that is not there."""
        self.in_background = False
        """The worker generates on after it has answered."""

    def __call__(self, expected: Tokens) -> Entry:
        """The entry of a request that is never settled, of the tokens that it reserved.

        Here, though only `gateway.admission` knows how: compiled, a class cannot be called if its base cannot.
        """
        raise NotImplementedError


class Exchange:
    """Filled in as the request proceeds; times are monotonic seconds. It never holds the prompt or a key."""

    __slots__ = (
        "account",
        "attempts",
        "backend",
        "choice",
        "continued",
        "cost_usd",
        "error",
        "estimated_tokens",
        "fell_back",
        "first_byte",
        "guardrails",
        "hit_blocks",
        "hit_source",
        "hit_tokens",
        "key",
        "limits_left",
        "model",
        "model_asked",
        "path",
        "predicted_ttft_s",
        "prefill",
        "prefill_worker",
        "price",
        "prompt_blocks",
        "prompt_tokens",
        "queued_s",
        "reason",
        "refused_by",
        "regret_s",
        "request_id",
        "runs",
        "saved_usd",
        "sent_at",
        "served_by",
        "shows_hits",
        "started",
        "status",
        "strategy",
        "streamed_events",
        "streams",
        "team",
        "trace",
        "usage",
        "user",
    )

    def __init__(self, request_id: bytes, path: str, started: float) -> None:  # noqa: PLR0915  # one for each field
        self.request_id = request_id
        self.path = path
        self.started = started
        self.team: str | None = None
        self.key: str | None = None
        """The public id of the key that the caller brought."""
        self.user: str | None = None
        """The end user that it named."""
        self.model_asked: str | None = None
        self.model: str | None = None
        """The configured name; None until it is known that there is one."""
        self.choice: Choice | None = None
        """Why it is that model, where a name was asked for that stands for several."""
        self.strategy: str | None = None
        self.reason: Reason | None = None
        self.streams = False
        self.backend: str | None = None
        """Who answers, or was tried last."""
        self.served_by: Literal["worker", "openai", "bedrock"] = "worker"
        """What kind of a backend that is."""
        self.prefill_worker: str | None = None
        """Who computed the prompt, where that is not who answers, or was tried last."""
        self.prefill: Literal["remote", "here", "failed"] | None = None
        """Where: on a prefill worker; where it is answered; or there because prefill workers failed. None: no request
        of its model is divided."""
        self.fell_back = False
        """A fallback answered."""
        self.price: Price | None = None
        """Of the fallback that answered; None: as those of the model."""
        self.hit_blocks = 0
        self.hit_tokens = 0.0
        """Of the prompt, that the chosen worker was believed to hold."""
        self.hit_source: Source | None = None
        self.runs = False
        """It counts among the requests that run at one time."""
        self.shows_hits = True
        """The caller, or its team's traces, may be told of hits: they are on nothing that another team has sent."""
        self.queued_s = 0.0
        """Seconds in the queue, until a worker could have it."""
        self.predicted_ttft_s: float | None = None
        """Seconds from its arrival to its first token, predicted when it was sent to the worker that was tried last;
        None: no worker had it.
        """
        self.regret_s: float | None = None
        """Seconds by which that is later than what was predicted of the best candidate; 0: it was the best one."""
        self.prompt_blocks = 0
        self.prompt_tokens = 0.0
        """Before the engine told: exact, or estimated."""
        self.streamed_events = 0
        self.limits_left: tuple[tuple[bytes, bytes], ...] = ()
        """Headers that say what the caller's limits still have room for."""
        self.attempts = 0
        self.sent_at: float | None = None
        """When a backend was asked last."""
        self.estimated_tokens: int | None = None
        """Completion tokens that are charged although nobody counted them: by the time and the engine's rate."""
        self.continued = 0
        """Times that another worker went on with the stream."""
        self.status = 0
        """What the caller was told; 499 if it went away before anything was said."""
        self.error: str | None = None
        """Name of the fault: a class of gateway.errors, or Refused (4xx of a worker), or CallerGone."""
        self.guardrails: tuple[str, ...] = ()
        """Those that have acted, each as its name, direction and action: ``pii:request:redact``."""
        self.refused_by: str | None = None
        """The limit that had no room: its scope and what it counts, e.g. ``key/tokens_per_minute``."""
        self.first_byte: float | None = None
        self.usage: Usage | None = None
        self.account: Account | None = None
        """Until it is settled."""
        self.cost_usd = 0.0
        self.saved_usd = 0.0
        """What its cached tokens would have cost more."""
        self.trace: Trace | None = None
        """None where the request is not traced. The one place where a prompt may be kept, for who is to be told it."""

    def enter(self, phase: str | None) -> None:
        """What it does from now on, for its trace, if it has one; None: nothing that would be told."""
        if self.trace is not None:
            self.trace.enter(phase)

    def began(self, now: float) -> None:
        """The first useful byte of a stream is here; of one that goes on elsewhere it was here before."""
        if self.first_byte is None:
            self.first_byte = now
