"""Facts about a gateway from which a diagnosis is made. Data only.

A gateway gives its own at `/admin/v1/diagnosis`; a command makes them from a settings file alone. None: not known.
Nothing in them is secret: no prompt, no key but by its public id, no address of a store.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """KV events of one worker's engine. Counts are since the gateway subscribed to them."""

    state: str
    """live, catching_up, stale or untrusted."""
    doubt: str | None = None
    """Reason why it cannot be live."""
    has_replay: bool | None = None
    """Whether missed events can be requested."""
    batches: int = 0
    lost_batches: int = 0
    undecodable_batches: int = 0
    stored_blocks: int = 0
    removed_blocks: int = 0
    resets: int = 0
    """Times that the cache was cleared, the engine restarted, or the picture of it was rebuilt."""
    has_other_groups: bool = False
    """Whether the engine also reports blocks that are not counted here, e.g. those of layers with a sliding window."""
    lag_s: float | None = None
    """Time from the making of the last batch to its application, by the clocks of both machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFacts:
    """Result of the tests of one worker when its KV events began."""

    verdict: str
    """See `gateway.models.cache_check.Verdict`."""
    differing: tuple[str, ...] = ()
    """Features of prompts that the engine tokenizes otherwise than the gateway's tokenizer."""
    block_hash: str | None = None
    """The engine's hash of a block that every worker of the model was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    id: str
    state: str | None = None
    """up, down, asleep, draining or drained."""
    role: str = "both"
    engine: str | None = None
    """vllm, sglang or dynamo."""
    prefix_caching: bool | None = None
    block_size: int | None = None
    """Tokens per block, by its metrics."""
    capacity_blocks: int | None = None
    """Size of its KV cache, by its metrics."""
    event_block_size: int | None = None
    """Tokens per block, by its KV events."""
    held_blocks: int | None = None
    """Blocks on the GPU, by its KV events."""
    shared_blocks: int = 0
    """Blocks in a store shared by several workers, by its KV events."""
    stream: StreamFacts | None = None
    """None: it does not say where it publishes KV events, or they are not used."""
    check: CheckFacts | None = None
    hit_accuracy: float | None = None
    """Share of tokens on which predicted and reported hits agree."""
    hit_alarm: bool = False
    """Whether predictions are mostly wrong, by enough evidence."""
    requests: int = 0
    """Requests that were sent to it since the start of the gateway."""
    backlog_s: float = 0.0
    streams: int = 0
    """Answered streams that were long enough to judge their pace."""
    streams_at_once: int = 0
    """Those of them that arrived as a whole after a wait."""
    followed_s: float | None = None
    """Time since the worker was added to the gateway."""
    clock_ahead_s: float | None = None
    """Its clock minus that of the program that asked it."""
    fault: str | None = None
    """Reason why it did not answer a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackFacts:
    """A fallback of a model that is tested periodically."""

    id: str
    is_legacy: bool = False
    is_ok: bool | None = None
    """Result of the last test request."""
    age_s: float | None = None
    """Time since that request."""
    every_s: float | None = None
    """Interval of test requests; None: they are not repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    name: str
    strategy: str
    not_ready: str | None = None
    """Reason why no backend can answer."""
    uses_events: bool = False
    """Whether KV events of its workers are used."""
    tokenizer: str | None = None
    """Source of exact tokens: auto, local, engine or none."""
    is_tokenizer_missing: bool = False
    """A local tokenizer is configured and could not be loaded."""
    workers: tuple[WorkerFacts, ...] = ()
    may_find_workers: bool = False
    """Whether workers may appear that are not among these."""
    requests: int = 0
    """Recent requests for which a worker was chosen."""
    short_prompts: int = 0
    """Those of them whose prompt did not fill a block."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    fallbacks: tuple[FallbackFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamFacts:
    name: str
    keys: int = 0
    unlimited_keys: tuple[str, ...] = ()
    """Ids of usable keys for which neither the key nor the team has a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    kind: str | None = None
    """file or redis; None: no store is set."""
    state: str | None = None
    """awaited, ready, away, or why it must not be used."""
    fault: str | None = None
    dropped_entries: int = 0
    """Entries of the ledger that are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFacts:
    time: float | None = None
    """Clock of the gateway, in seconds since 1970; None: no gateway was asked."""
    asked_at: float | None = None
    """Clock of the program that asked it, when the answer came."""
    version: str | None = None
    open_mode: str | None = None
    """loopback or network, if neither teams nor a store are set."""
    models: tuple[ModelFacts, ...] = ()
    teams: tuple[TeamFacts, ...] = ()
    store: StoreFacts = StoreFacts()
