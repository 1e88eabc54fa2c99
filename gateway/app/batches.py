"""Assembly of files and batches, if the gateway serves them."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gateway.app.batch_webhooks import BatchWebhooks
from gateway.app.stores import Stores
from gateway.app.tenancy import Tenancy
from gateway.batch.batch import TeamBatch
from gateway.batch.batch_files import BatchFiles
from gateway.batch.batches import Batches, BatchRules
from gateway.batch.contents import Contents
from gateway.batch.counters import BatchCounters
from gateway.batch.enqueued import EnqueuedTokens
from gateway.batch.files import FileRules, Files
from gateway.batch.identity import KeyIdentity
from gateway.batch.lane import Lane
from gateway.batch.line_call import App
from gateway.batch.line_runner import LineRunner
from gateway.batch.planner import planned
from gateway.batch.runner import BatchRunner
from gateway.models.registry import Models

DEFAULT_BYTES_PER_TOKEN: Final = 4.0
"""Assumed bytes per token of a name that stands for several models."""


@dataclass(frozen=True, slots=True)
class BatchParts:
    """Files and batches of teams, and what runs batches."""

    files: Files
    batches: Batches
    runner: BatchRunner
    webhooks: BatchWebhooks

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the background loops, to run until canceled."""
        return [self.files.run(), self.runner.run(), *self.webhooks.loops()]


def batch_parts(
    contents: Contents,
    file_rules: FileRules,
    batch_rules: BatchRules,
    *,
    tenancy: Tenancy,
    models: Models,
    proxy: App,
    counters: BatchCounters,
    webhooks: BatchWebhooks,
    wall_clock: Callable[[], float],
) -> BatchParts:
    """Return files and batches in the store of *tenancy*, with their contents in *contents*. *proxy* serves the
    requests in the lines of batches.
    """
    stores: Stores = tenancy.stores
    files = Files(stores.files, contents, file_rules, wall_clock=wall_clock)
    identity = KeyIdentity(tenancy.directory, tenancy.access)
    lane = _lane(models, batch_rules, counters)

    def line_runner(batch: TeamBatch, files: BatchFiles) -> LineRunner:
        return LineRunner(
            batch,
            files,
            app=proxy,
            lines=stores.batch_lines,
            lane=lane,
            counters=counters,
            identity=identity,
            lease_s=batch_rules.lease_s,
            raise_before_s=batch_rules.raise_before_s,
            wall_clock=wall_clock,
        )

    runner = BatchRunner(
        *(stores.batches, stores.batch_lines, files, batch_rules),
        planner=planned,
        check_model=partial(_check_model, models, identity),
        enqueued=EnqueuedTokens(
            stores.enqueued,
            max_tokens=batch_rules.max_enqueued_tokens,
            by_model=batch_rules.model_enqueued_tokens,
            token_count=partial(_token_count, models),
            name_of=models.configured_name,
        ),
        line_runner=line_runner,
        events=webhooks.events,
        counters=counters,
        wall_clock=wall_clock,
    )
    batches = Batches(
        stores.batches, stores.batch_lines, files, batch_rules, wall_clock=wall_clock, on_change=runner.look
    )
    return BatchParts(files, batches, runner, webhooks)


def _lane(models: Models, rules: BatchRules, counters: BatchCounters) -> Lane:
    return Lane(
        models,
        per_worker=rules.max_in_flight_per_worker,
        max_cache_share=rules.max_cache_share,
        interrupts=lambda model: rules.model_interrupts.get(model, rules.interrupts),
        counters=counters,
    )


def _token_count(models: Models, asked: str, size: int) -> int:
    """Return the estimated tokens of prompts with *size* bytes for the model *asked*, by the model's measured ratio."""
    if models.route(asked) is not None:
        return round(size / DEFAULT_BYTES_PER_TOKEN)
    return round(size / models.find(asked).fleet.bytes_per_token.ratio)


def _check_model(models: Models, identity: KeyIdentity, batch: TeamBatch, asked: str) -> None:
    """Raise an error unless the key of *batch* may use the model *asked*.

    Raises:
        UnknownModel: if there is no such model or route.
        Forbidden: if the key may not use it.
        InvalidKey: if the key is no longer valid.
    """
    caller = identity.caller(batch.info.key, batch.team, "patient")
    name = models.configured_name(asked)
    if models.route(asked) is None:
        name = models.find(asked).name
    caller.permits.check_model(asked, name)
