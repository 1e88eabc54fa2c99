"""Start what-if jobs for the models of this gateway."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gateway.models.model import Model
from gateway.telemetry.shapes.segments import Segments
from gateway.telemetry.what_if.job import Change, Engine, FleetShape, Job
from gateway.telemetry.what_if.runner import Replay, WhatIfRunner

LINE_TOKENS = 4096.0
"""Length of the prompt from whose predicted time the learned time per token follows."""


class NothingRecordedError(Exception):
    """Raised if request shapes are not recorded, or none was recorded yet."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a model in US dollars."""

    gpu_hour_usd: float | None
    saved_token_usd: float | None
    """Difference between the prices of a computed and of a cached prompt token, or None without prices."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Replays of one gateway's requests with other settings."""

    runner: WhatIfRunner
    files: Segments | None
    """Files with request shapes, or None if they are not recorded."""
    write: Callable[[], None]
    """Function that writes the shapes of all completed requests to the files."""
    default_cache_tokens: int
    """Assumed cache size of workers that report none."""
    wall_clock: Callable[[], float]

    def replay(
        self,
        model: Model,
        prices: Prices,
        changes: Sequence[Change],
        *,
        last_s: float,
        has_kv_events: bool | None = None,
    ) -> Replay:
        """Replay the requests for *model* of the last *last_s* seconds with each of *changes*.

        *has_kv_events* states whether engines send KV events. None means whether all workers send them now.

        Raises:
            NothingRecordedError: if nothing was recorded.
            BusyError: if a job is running.
        """
        if self.files is None:
            raise NothingRecordedError("Request shapes are not recorded. Set request_shapes.enabled.")
        self.write()
        directory = self.files.directory
        if directory is None:
            raise NothingRecordedError("No request was recorded yet.")
        since = self.wall_clock() - last_s
        job = self._job(model, prices, changes, has_kv_events)
        return self.runner.start(replace(job, directory=str(directory), since=since))

    def replay_trace(
        self,
        model: Model,
        prices: Prices,
        changes: Sequence[Change],
        trace: str,
        *,
        users: int,
        has_kv_events: bool | None = None,
    ) -> Replay:
        """Replay the uploaded *trace* on the workers of *model* with each of *changes*. See `replay`.

        Raises:
            BusyError: if a job is running.
        """
        return self.runner.start(replace(self._job(model, prices, changes, has_kv_events), trace=trace, users=users))

    def _job(self, model: Model, prices: Prices, changes: Sequence[Change], has_kv_events: bool | None) -> Job:
        """Return a job that has nothing to replay yet."""
        engines = engines_of(model)
        capacities = [blocks * size for worker in model.fleet for blocks, size in [worker.engine_capacity or (0, 0)]]
        tokens = min([each for each in capacities if each], default=self.default_cache_tokens)
        return Job(
            model.name,
            FleetShape(model.strategy, max(1, len(engines)), tokens),
            tuple(engines),
            tuple(changes),
            has_kv_events=send_kv_events(model) if has_kv_events is None else has_kv_events,
            gpu_hour_usd=prices.gpu_hour_usd,
            saved_token_usd=prices.saved_token_usd,
        )


def send_kv_events(model: Model) -> bool:
    """Return whether the gateway follows the KV events of all workers of *model*."""
    workers = list(model.fleet)
    return bool(workers) and all(worker.is_trusted for worker in workers)


def engines_of(model: Model) -> list[Engine]:
    """Return the learned times of the workers of *model* that answer requests, or of an assumed one without workers."""
    decode_s, slope_s = model.fleet.decode_times()
    found = [
        Engine(fixed_s, (worker.prefill_s(LINE_TOKENS) - fixed_s) / LINE_TOKENS, decode_s, slope_s)
        for worker, fixed_s in [(each, each.prefill_s(0.0)) for each in model.fleet if each.role != "prefill"]
    ]
    return found or [Engine(0.01, 0.0001, decode_s, slope_s)]
