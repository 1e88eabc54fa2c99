"""Candidate worker with its load and its cache hit for one request. Strategies use no other data about workers."""

from typing import Final, Literal

import msgspec

from cache_index import WorkerId
from cache_index.native import mypyc_attr
from cache_index.value import Value
from routing.loads import NO_LOADS, Loads
from routing.pull import Pull


@mypyc_attr(acyclic=True)
class Load(Value):
    """Load of a worker at one moment, according to the gateway's own accounting."""

    __match_args__ = (
        "backlog_s",
        "pending",
        "decodes",
        "busy_share",
        "prefill_overhead_s",
        "prefill_s_per_token",
        "decode_s_per_token",
    )
    __slots__ = __match_args__

    def __init__(  # noqa: PLR0917  # one for each field
        self,
        backlog_s: float,
        pending: int,
        decodes: int,
        busy_share: float,
        prefill_overhead_s: float,
        prefill_s_per_token: float,
        decode_s_per_token: float,
    ) -> None:
        self.backlog_s: Final = backlog_s
        """Seconds of prefill work that the worker must finish before it can begin a request sent now."""
        self.pending: Final = pending
        """Number of the worker's requests that have no first token yet."""
        self.decodes: Final = decodes
        """Number of the worker's requests that are generating tokens."""
        self.busy_share: Final = busy_share
        """Smoothed share of time, from 0 to 1, during which the worker has prefills to compute. Candidates that are
        as fast as their fleet have the mean of these workers.
        """
        self.prefill_overhead_s: Final = prefill_overhead_s
        self.prefill_s_per_token: Final = prefill_s_per_token
        self.decode_s_per_token: Final = decode_s_per_token
        """Seconds per output token by which one more running request slows down generation."""

    @property
    def in_flight(self) -> int:
        return self.pending + self.decodes


Source = Literal["reported", "predicted"]
"""Source of a cache hit: "reported" by the engine's cache events, or "predicted" from the requests sent to the worker.
"""


@mypyc_attr(acyclic=True)
class Candidate(Value):
    """Worker that could answer a request."""

    __match_args__ = (
        "worker",
        "hit_blocks",
        "hit_tokens",
        "load",
        "admits",
        "load_s",
        "source",
        "plain_tokens",
        "reported_tokens",
        "zone_penalty_s",
        "fetches",
        "remote_tokens",
        "evicts_s",
        "loads",
        "displaces_s",
        "pull",
    )
    __slots__ = __match_args__

    def __init__(  # noqa: PLR0917  # one for each field
        self,
        worker: WorkerId,
        hit_blocks: int,
        hit_tokens: float,
        load: Load,
        admits: bool = True,
        load_s: float = 0.0,
        source: Source = "predicted",
        plain_tokens: float = 0.0,
        reported_tokens: float | None = None,
        zone_penalty_s: float = 0.0,
        fetches: bool = False,
        remote_tokens: float = 0.0,
        evicts_s: float = 0.0,
        loads: Loads = NO_LOADS,
        displaces_s: float = 0.0,
        pull: Pull | None = None,
    ) -> None:
        self.worker: Final = worker
        self.hit_blocks: Final = hit_blocks
        self.hit_tokens: Final = hit_tokens
        self.load: Final = load
        self.admits: Final = admits
        """Whether the worker admits a request. A worker that is warming up and has enough requests is tried last."""
        self.load_s: Final = load_s
        """Seconds to load the cached blocks that are not in GPU memory."""
        self.source: Final = source
        self.plain_tokens: Final = plain_tokens
        """Predicted cached tokens before the accuracy correction, which gives `hit_tokens`."""
        self.reported_tokens: Final = reported_tokens
        """Cached tokens according to the engine's cache events, trusted or not, or None if there are no events."""
        self.zone_penalty_s: Final = zone_penalty_s
        """Extra cost in seconds of a request to this worker, compared with a worker in the gateway's zone."""
        self.fetches: Final = fetches
        """Whether the worker can generate answers to prompts that another worker (a prefill worker) has computed."""
        self.remote_tokens: Final = remote_tokens
        """Prompt tokens that a prefill worker computes for this worker, or 0 if this worker computes the prompt itself.
        """
        self.displaces_s: Final = displaces_s
        """Expected seconds to recompute what other sessions lose from the cache if the request's session begins here,
        or 0 if the request continues a session.
        """
        self.evicts_s: Final = evicts_s
        """Expected seconds to recompute the cached blocks that the request evicts."""
        self.loads: Final = loads
        """Tokens of the hit that are not in GPU memory, by tier. Loading them takes `load_s`."""
        self.pull: Final = pull
        """Pull of missing blocks from another worker, or None. `hit_tokens`, `loads` and `load_s` include it."""


Role = Literal["both", "prefill", "decode"]
"""Worker role: "both" answers whole requests, "prefill" computes prompts for other workers, "decode" generates answers
to prompts computed elsewhere.
"""

WhyNotReady = Literal["down", "asleep", "draining"]
WhyNot = (
    WhyNotReady
    | Literal[
        "breaker open",
        "not the worker that keeps the response",
        "not among the allowed workers",
        "a prefill worker",
    ]
)


class Excluded(msgspec.Struct, frozen=True):
    """Worker that is not a candidate for a request, with its candidate data and the reason for its exclusion."""

    candidate: Candidate
    why_not: WhyNot
