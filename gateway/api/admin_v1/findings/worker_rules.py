"""Rules that derive findings from facts about single workers, with one function for each symptom."""

from collections.abc import Callable, Iterator

from gateway.api.admin_v1.findings.finding import Finding, Severity
from gateway.api.admin_v1.gateway_facts import ModelFacts, StreamFacts, WorkerFacts

Rule = Callable[[ModelFacts, WorkerFacts], Iterator[Finding]]

AHEAD_S = 1.0
"""Seconds by which events seem to arrive before their creation if the worker's clock is ahead."""
LATE_S = 10.0
"""Lag of events in seconds above which a wrong clock is suspected. Events usually arrive within milliseconds."""
DATE_SKEW_S = 5.0
"""Difference between two clocks in seconds that is reported. The header Date has only whole seconds."""
FEW_HELD = 0.5
"""Share of the reported capacity below which an engine that evicts blocks cannot have that capacity."""
MANY_HELD = 1.02
ENOUGH_EVICTED = 32
"""Number of evicted blocks from which the cache capacity is judged."""
ENOUGH_STREAMS = 5
AT_ONCE_SHARE = 0.8
USUAL_FEATURES = frozenset({"text", "chat"})
"""Prompt features that almost every prompt has."""
MUCH_OFF = 0.5
"""Mean relative error of predicted times to the first token that is reported. It is below 0.1 on a healthy fleet."""
SHORT_STAY_S = 30.0
"""Seconds in the cache that are fewer than the pause between two messages in most conversations."""


def unavailable(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    if worker.fault is not None:
        yield _finding("worker-unavailable", model, worker, f"The worker does not answer: {worker.fault}.")
    elif worker.state == "down":
        yield _finding("worker-unavailable", model, worker, "The health check of the worker fails.")


def prefix_caching_off(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    if worker.prefix_caching is False:
        text = "The engine's metrics report that prefix caching is off, so every prompt is computed completely."
        yield _finding("prefix-caching-off", model, worker, text)


def contradicted_block_size(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    published, reported = worker.event_block_size, worker.block_size
    if None not in (published, reported) and published != reported:
        text = f"The engine's KV events have blocks of {published} tokens, but its metrics report {reported} tokens."
        yield _finding("wrong-block-size", model, worker, text)
    elif _verdict(worker) == "block_size":
        yield _finding("wrong-block-size", model, worker, "The engine's KV events and metrics differ in block size.")


def wrong_capacity(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    capacity, held, stream = worker.capacity_blocks, worker.held_blocks, worker.stream
    if capacity is None or held is None or stream is None or worker.event_block_size != worker.block_size:
        return
    if held > capacity * MANY_HELD + 1:
        text = f"The engine's metrics report a cache of {capacity} blocks, but its KV events show {held} blocks."
        yield _finding("wrong-capacity", model, worker, text)
    elif held < capacity * FEW_HELD and _evicts(stream):
        text = f"The engine's metrics report a cache of {capacity} blocks, but it evicts blocks when it holds {held}."
        yield _finding("wrong-capacity", model, worker, text)


def early_eviction(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    held, stream, followed_s = worker.held_blocks, worker.stream, worker.followed_s
    if not held or not followed_s or stream is None or not _evicts(stream) or stream.removed_blocks < held:
        return
    stay_s = held / (stream.removed_blocks / followed_s)
    if stay_s < SHORT_STAY_S:
        text = f"The engine evicts blocks after {stay_s:.1f} s on average, before the next turn of most conversations."
        yield _finding("early-eviction", model, worker, text)


def no_kv_events(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    if not model.uses_events or worker.role == "decode" or worker.state not in (None, "up") or worker.fault:
        return
    if worker.stream is None:
        text = "The engine does not report where it publishes KV events, so its cache contents are predicted."
        yield _finding("no-kv-events", model, worker, text)
    elif worker.stream.doubt == "not_connected":
        text = "The gateway cannot connect to the address of the engine's KV events."
        yield _finding("kv-events-unreachable", model, worker, text)
    elif _verdict(worker) == "topic":
        text = "The engine published no KV events for a test prompt: wrong topic, wrong port, or KV events are off."
        yield _finding("no-kv-events", model, worker, text)


def no_replay_endpoint(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    if worker.stream is not None and worker.stream.has_replay is False:
        text = "The engine cannot replay KV events, so lost events and events before the gateway's start stay unknown."
        yield _finding("no-replay-endpoint", model, worker, text)


def lost_events(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    stream = worker.stream
    if stream is None:
        return
    if stream.doubt == "undecodable" or stream.undecodable_batches:
        text = f"{stream.undecodable_batches} batches of KV events could not be decoded."
        yield _finding("undecodable-events", model, worker, text)
    if stream.doubt == "lost":
        text = f"{stream.lost_batches} batches of KV events are lost, so the worker's cache contents are predicted."
        yield _finding("lost-events", model, worker, text)
    elif stream.lost_batches:
        text = f"{stream.lost_batches} batches of KV events were lost, but predicted hits have been accurate since."
        yield _finding("lost-events", model, worker, text, "info")
    elif stream.doubt == "partial" or (stream.doubt == "unreplayed" and stream.has_replay is not False):
        text = "The engine can replay only its latest KV events, so its older blocks are not known yet."
        yield _finding("incomplete-events", model, worker, text)


def wrong_tokenizer(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    verdict = _verdict(worker)
    if worker.check is not None and worker.check.differing:
        differing = worker.check.differing
        text = f"The engine and the gateway tokenize prompts with {', '.join(differing)} differently."
        is_partial = USUAL_FEATURES.isdisjoint(differing)
        yield _finding("wrong-tokenizer", model, worker, text, "warning" if is_partial else None)
    elif verdict == "tokens":
        text = "The engine and the gateway count different numbers of tokens in the same text."
        yield _finding("wrong-tokenizer", model, worker, text)
    elif verdict == "prefix":
        text = "The engine's KV events do not match a test prompt: its tokenizer, chat template or adapter differs."
        yield _finding("wrong-tokenizer", model, worker, text)


def refused_names(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    if _verdict(worker) == "model":
        text = "The worker does not serve a model with the name that requests use."
        yield _finding("wrong-upstream-model", model, worker, text)
    elif _verdict(worker) == "salt":
        text = "The engine's KV events do not match prompts with a cache_salt, which teams with isolated_cache use."
        yield _finding("wrong-salt", model, worker, text)


def untrue_hits(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    if _verdict(worker) == "cached_tokens":
        text = "The cached tokens that the engine reports for a repeated prompt differ from its KV events."
        yield _finding("untrue-hits", model, worker, text)


def buffered_streams(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    if worker.streams >= ENOUGH_STREAMS and worker.streams_at_once >= AT_ONCE_SHARE * worker.streams:
        text = (
            f"{worker.streams_at_once} of the worker's last {worker.streams} streams arrived as one piece at the end."
        )
        yield _finding("buffered-streams", model, worker, text)


def clock_skew(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    lag_s = None if worker.stream is None else worker.stream.lag_s
    ahead_s = worker.clock_ahead_s
    if lag_s is not None and lag_s < -AHEAD_S:
        yield _finding("clock-skew", model, worker, f"The worker's clock is {-lag_s:.1f} s ahead of the gateway's.")
    elif lag_s is not None and lag_s > LATE_S:
        text = f"The worker's clock is {lag_s:.1f} s behind the gateway's, or its KV events are that late."
        yield _finding("clock-skew", model, worker, text)
    elif ahead_s is not None and abs(ahead_s) > DATE_SKEW_S:
        text = f"The clocks of the worker and this machine differ by {abs(ahead_s):.0f} s."
        yield _finding("clock-skew", model, worker, text)


def inaccurate_ttft(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    """Report predicted times to the first token that are far off, which no other finding about the worker explains."""
    if worker.ttft_error is not None and worker.ttft_error >= MUCH_OFF:
        direction = "too long" if worker.ttft_bias > 0 else "too short"
        text = (
            f"Predicted times to the first token are off by {worker.ttft_error * 100:.0f} % on average, "
            f"and {abs(worker.ttft_bias) * 100:.0f} % {direction}."
        )
        yield _finding("inaccurate-ttft", model, worker, text)


def inaccurate_predictions(model: ModelFacts, worker: WorkerFacts) -> Iterator[Finding]:
    """Report mostly wrong cache predictions that no other finding about the worker explains."""
    if worker.hit_alarm or (worker.stream is not None and worker.stream.doubt == "inaccurate"):
        share = 100 * (worker.hit_accuracy or 0.0)
        text = (
            f"The accuracy of predicted cache hits, compared with the hits that the engine reports, is {share:.0f} %."
        )
        yield _finding("inaccurate-predictions", model, worker, text)


RULES: tuple[Rule, ...] = (
    unavailable,
    prefix_caching_off,
    contradicted_block_size,
    wrong_capacity,
    early_eviction,
    no_kv_events,
    no_replay_endpoint,
    lost_events,
    wrong_tokenizer,
    refused_names,
    untrue_hits,
    buffered_streams,
    clock_skew,
)


def findings_of(model: ModelFacts, worker: WorkerFacts) -> list[Finding]:
    """Return the findings about the worker *worker* of *model*."""
    found = [finding for rule in RULES for finding in rule(model, worker)]
    return found or list(inaccurate_predictions(model, worker)) or list(inaccurate_ttft(model, worker))


def _evicts(stream: StreamFacts) -> bool:
    """Return whether the event stream shows evictions and no other removals of blocks."""
    return (
        stream.state == "live"
        and stream.removed_blocks >= ENOUGH_EVICTED
        and not stream.resets
        and not stream.has_other_groups
    )


def _verdict(worker: WorkerFacts) -> str | None:
    return None if worker.check is None else worker.check.verdict


def _finding(
    code: str, model: ModelFacts, worker: WorkerFacts, text: str, other_severity: Severity | None = None
) -> Finding:
    return Finding(code=code, text=text, model=model.name, worker=worker.id, other_severity=other_severity)
