"""Plain data about a gateway from which a diagnosis is made.

A gateway gives its own at `/admin/v1/diagnosis`; a command makes them from a settings file alone. None: not known.
Nothing in them is secret: no prompt, no key but by its public id, no address of a store.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """KV events of one worker's engine. Counters start when the gateway subscribes to the events."""

    state: str
    """State of the event stream: live, catching_up, stale or untrusted."""
    doubt: str | None = None
    """Reason why the event stream cannot be live, or None."""
    has_replay: bool | None = None
    """Whether missed events can be requested again, or None if unknown."""
    batches: int = 0
    lost_batches: int = 0
    undecodable_batches: int = 0
    stored_blocks: int = 0
    removed_blocks: int = 0
    resets: int = 0
    """Number of times that the cache was cleared, the engine restarted, or the index of the cache was rebuilt."""
    has_other_groups: bool = False
    """Whether the engine also reports blocks that are not counted, e.g. blocks of layers with a sliding window."""
    lag_s: float | None = None
    """Seconds from the creation of the last event batch to its application, by the clocks of both machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFacts:
    """Result of the checks of one worker, made when its KV events began."""

    verdict: str
    """Verdict of the checks, as in `gateway.models.cache_check.Verdict`."""
    differing: tuple[str, ...] = ()
    """Prompt features for which the engine's tokens differ from those of the gateway's tokenizer."""
    block_hash: str | None = None
    """Engine's hash of a test block that every worker of the model received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    id: str
    state: str | None = None
    """State of the worker: up, down, asleep, draining or drained."""
    role: str = "both"
    engine: str | None = None
    """Inference engine of the worker: vllm, sglang or dynamo."""
    prefix_caching: bool | None = None
    block_size: int | None = None
    """Tokens per block according to the worker's metrics."""
    capacity_blocks: int | None = None
    """Size of the worker's KV cache in blocks, according to its metrics."""
    event_block_size: int | None = None
    """Tokens per block according to the worker's KV events."""
    held_blocks: int | None = None
    """Number of blocks on the worker's GPU, according to its KV events."""
    shared_blocks: int = 0
    """Number of blocks in a store shared by several workers, according to the worker's KV events."""
    stream: StreamFacts | None = None
    """Facts about the worker's KV events, or None if it does not publish them or they are not used."""
    check: CheckFacts | None = None
    hit_accuracy: float | None = None
    """Share of tokens on which predicted and reported cache hits agree."""
    hit_alarm: bool = False
    """Whether enough evidence shows that cache predictions are mostly wrong."""
    ttft_error: float | None = None
    """Mean relative error of predicted times to the first token, or None if there are too few measurements."""
    ttft_bias: float = 0.0
    """Mean signed relative error of the same predictions. It is positive if the predicted times are too long."""
    requests: int = 0
    """Number of requests sent to the worker since the start of the gateway."""
    backlog_s: float = 0.0
    streams: int = 0
    """Number of answered streams that were long enough to judge their pace."""
    streams_at_once: int = 0
    """Number of judged streams that arrived all at once after a wait."""
    followed_s: float | None = None
    """Seconds since the worker was added to the gateway."""
    clock_ahead_s: float | None = None
    """Seconds by which the worker's clock is ahead of the clock of the program that asked it."""
    fault: str | None = None
    """Reason why the worker did not answer a query, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackFacts:
    """Fallback of a model that is tested periodically."""

    id: str
    is_legacy: bool = False
    is_ok: bool | None = None
    """Whether the last test request to the fallback succeeded."""
    age_s: float | None = None
    """Seconds since the last test request."""
    every_s: float | None = None
    """Seconds between test requests, or None if they are not repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    name: str
    strategy: str
    not_ready: str | None = None
    """Reason why no backend of the model can answer, or None."""
    uses_events: bool = False
    """Whether routing uses the KV events of the model's workers."""
    tokenizer: str | None = None
    """Source of exact tokens: auto, local, engine or none."""
    is_tokenizer_missing: bool = False
    """Whether a local tokenizer is configured but could not be loaded."""
    workers: tuple[WorkerFacts, ...] = ()
    may_find_workers: bool = False
    """Whether discovery or the admin API can add further workers to the model."""
    requests: int = 0
    """Number of recent requests for which a worker was chosen."""
    short_prompts: int = 0
    """Number of recent requests whose prompt did not fill a block."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    fallbacks: tuple[FallbackFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamFacts:
    name: str
    keys: int = 0
    unlimited_keys: tuple[str, ...] = ()
    """Ids of usable API keys that have no limit, neither of their own nor from their team."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    kind: str | None = None
    """Kind of store: file or redis, or None if no store is configured."""
    state: str | None = None
    """State of the store: awaited, ready, away, or the reason why it must not be used."""
    fault: str | None = None
    dropped_entries: int = 0
    """Number of ledger entries that were lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFacts:
    time: float | None = None
    """Time by the gateway's clock in seconds since 1970, or None if no gateway was asked."""
    asked_at: float | None = None
    """Time at which the gateway's answer arrived, by the clock of the program that asked."""
    version: str | None = None
    open_mode: str | None = None
    """Access without keys: loopback or network, or None if teams or a store are configured."""
    models: tuple[ModelFacts, ...] = ()
    teams: tuple[TeamFacts, ...] = ()
    store: StoreFacts = StoreFacts()
