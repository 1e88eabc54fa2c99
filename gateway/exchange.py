"""One request on its way through: what is known of it so far, for its headers, its log line and its metrics."""

from typing import Literal

import msgspec

from gateway.ledger.price import Price
from gateway.models import Model
from gateway.quota.quota import Reservation
from gateway.sse import Usage
from gateway.teams.caller import Caller
from routing.candidate import Source
from routing.reason import Reason


class Account(msgspec.Struct, frozen=True):
    """What has to be settled when a request ends."""

    caller: Caller
    reservation: Reservation
    model: Model


class Exchange(msgspec.Struct, eq=False):
    """Filled in as the request proceeds; times are monotonic seconds. It never holds the prompt or a key."""

    request_id: bytes
    path: str
    started: float
    team: str | None = None
    key: str | None = None
    """The public id of the key that the caller brought."""
    user: str | None = None
    """The end user that it named."""
    model_asked: str | None = None
    model: str | None = None
    """The configured name; None until it is known that there is one."""
    strategy: str | None = None
    reason: Reason | None = None
    streams: bool = False
    backend: str | None = None
    """Who answers, or was tried last."""
    served_by: Literal["worker", "openai", "bedrock"] = "worker"
    """What kind of a backend that is."""
    fell_back: bool = False
    """A fallback answered."""
    price: Price | None = None
    """Of the fallback that answered; None: as those of the model."""
    hit_blocks: int = 0
    hit_tokens: float = 0.0
    """Of the prompt, that the chosen worker was believed to hold."""
    hit_source: Source | None = None
    prompt_blocks: int = 0
    prompt_tokens: float = 0.0
    """Before the engine told: exact, or estimated."""
    streamed_events: int = 0
    limits_left: tuple[tuple[bytes, bytes], ...] = ()
    """Headers that say what the caller's limits still have room for."""
    attempts: int = 0
    continued: int = 0
    """Times that another worker went on with the stream."""
    status: int = 0
    """What the caller was told; 499 if it went away before anything was said."""
    error: str | None = None
    """Name of the fault: a class of gateway.errors, or Refused (4xx of a worker), or CallerGone."""
    refused_by: str | None = None
    """The limit that had no room: its scope and what it counts, e.g. ``key/tokens_per_minute``."""
    first_byte: float | None = None
    usage: Usage | None = None
    account: Account | None = None
    """Until it is settled."""
    cost_usd: float = 0.0
    saved_usd: float = 0.0
    """What its cached tokens would have cost more."""

    def began(self, now: float) -> None:
        """The first useful byte of a stream is here; of one that goes on elsewhere it was here before."""
        if self.first_byte is None:
            self.first_byte = now
