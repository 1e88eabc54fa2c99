"""All replays of one what-if job. Nothing here knows that it runs in a process of its own."""

import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from engine_model.engine import EngineError
from gateway.telemetry.shapes.reader import read_shapes
from gateway.telemetry.shapes.shape import Shape
from gateway.telemetry.shapes.shape_trace import ShapeTrace, trace_of
from gateway.telemetry.what_if.job import Figures, FleetShape, Job, Message, Result, Row, Saved
from replay.run import Answer
from replay.trace import Trace, parse_trace
from replay.what_if import STEPS, WARM_UP_SHARE, Alternative, EngineTimes, Replayer, counted
from replay.workload import ClosedLoop, OpenLoop, OpenSessions, SessionStart, Workload

ROUND_ROBIN = "round_robin"
HOUR_S = 3600.0
FEW_REQUESTS = 3000
"""Number of requests below which chance matters, so that a replay is repeated."""
REPETITIONS = 4
JITTER_S = 0.25
"""Seconds by which sessions begin earlier or later in a repetition."""
REPORTS = 200
"""Maximum number of reports about progress."""


class Progress:
    """Reports the share of the work that is done, in a few steps."""

    def __init__(self, total: int, report: Callable[[Message], None]) -> None:
        self._total = max(1, total)
        self._every = max(1, total // REPORTS)
        self._report = report
        self._done = 0

    def answered(self) -> None:
        self._done += 1
        if self._done % self._every == 0:
            self._report(Message(done=min(1.0, self._done / self._total)))


def result_of(job: Job, report: Callable[[Message], None]) -> Result:
    """Return the result of *job*, and report the progress.

    Raises:
        OSError: if the recorded shapes cannot be read.
        ValueError: if there is nothing to replay, or the trace is not valid.
    """
    return _of_upload(job, report) if job.directory is None else _of_shapes(job, Path(job.directory), report)


def _of_upload(job: Job, report: Callable[[Message], None]) -> Result:
    trace = parse_trace((job.trace or "").splitlines(), "the trace")
    repetitions = _repetitions(trace)
    progress = Progress(len(trace.requests) * repetitions * len(job.changes), report)
    replayer = _replayer(job, trace, partial(_workload, trace, job.users), progress)
    rows: list[Row] = []
    answers: Sequence[Sequence[Answer]] = ()
    for change in job.changes:
        row, answers = _row(job, replayer, change.applied(job.fleet), 1.0)
        rows.append(row)
    return Result(None, _duration_s(answers), len(trace.requests), None, None, 1.0, tuple(rows), ())


def _workload(trace: Trace, users: int, repetition: int) -> Workload:
    if trace.is_closed_loop:
        return ClosedLoop(trace.requests, random.Random(repetition), users=users, speed=1.0)
    return OpenLoop(trace.requests, random.Random(repetition), speed=1.0)


def _sessions(sessions: Sequence[SessionStart], repetition: int) -> Workload:
    """Return *sessions* as recorded for the first repetition, and for others with begins that are a little off."""
    if not repetition:
        return OpenSessions(sessions)
    rng = random.Random(repetition)
    return OpenSessions(
        [
            SessionStart(max(0.0, session.begins_s + rng.uniform(-JITTER_S, JITTER_S)), session.requests)
            for session in sessions
        ]
    )


def _repetitions(trace: Trace) -> int:
    return REPETITIONS if len(trace.requests) < FEW_REQUESTS else 1


def _of_shapes(job: Job, directory: Path, report: Callable[[Message], None]) -> Result:
    shapes = read_shapes(directory, since=job.since, model=job.model)
    found = trace_of(shapes)
    fleet = recorded_fleet(job, shapes)
    total = len(shapes) * _repetitions(found.trace) * (STEPS + 2 + len(job.changes))
    replayer = _replayer(job, found.trace, partial(_sessions, found.sessions), Progress(total, report))
    measured = measured_figures(shapes)
    scale = 1.0
    if measured is not None:
        scale = _calibrated(replayer, fleet, found, measured.ttft_mean_s)
    recorded, as_recorded = _row(job, replayer, fleet, scale)
    robin, as_robin = _row(job, replayer, FleetShape(ROUND_ROBIN, fleet.workers, fleet.cache_tokens), scale)
    rows = []
    for change in job.changes:
        alternative = change.applied(fleet)
        known = {recorded.fleet: recorded, robin.fleet: robin}.get(alternative)
        rows.append(known or _row(job, replayer, alternative, scale)[0])
    usd = token_usd(job, scale)
    savings = tuple(savings_of(shapes, as_recorded, as_robin, usd)) if as_recorded and as_robin else ()
    lasted_s = shapes[-1].at - shapes[0].at
    return Result(shapes[0].at, lasted_s, len(shapes), measured, recorded, scale, tuple(rows), savings)


def _replayer(job: Job, trace: Trace, workload: Callable[[int], Workload], progress: Progress) -> Replayer:
    engines = [
        EngineTimes(each.prefill_fixed_s, each.prefill_s_per_token, each.decode_s, each.decode_slope_s)
        for each in job.engines
    ]
    return Replayer(trace, workload, engines, progress.answered, _repetitions(trace), job.has_kv_events)


def _calibrated(replayer: Replayer, fleet: FleetShape, found: ShapeTrace, measured_s: float) -> float:
    try:
        return replayer.calibrated(
            _alternative(fleet), measured_s, lambda number: found.shapes[number].ttft_s is not None
        )
    except EngineError:
        return 1.0


def _row(job: Job, replayer: Replayer, fleet: FleetShape, scale: float) -> tuple[Row, list[list[Answer]]]:
    """Return the outcome of one replay and its answers, which are empty if the replay failed."""
    try:
        answers = replayer.answers(_alternative(fleet), scale)
    except EngineError as fault:
        return Row(fleet, None, error=f"A request does not fit into the cache of a worker: {fault}."), []
    hours = fleet.workers * _duration_s(answers) / HOUR_S
    usd = None if job.gpu_hour_usd is None else hours * job.gpu_hour_usd
    counting = counted(answers)
    hit = sum(answer.cached_tokens for answer in counting) / sum(answer.prompt_tokens for answer in counting)
    return Row(fleet, _figures([answer.ttft_s for answer in counting], hit), hours, usd), answers


def _alternative(fleet: FleetShape) -> Alternative:
    return Alternative(fleet.strategy, fleet.workers, fleet.cache_tokens)


def _duration_s(repetitions: Sequence[Sequence[Answer]]) -> float:
    """Return the mean seconds from the first arrival to the end of the last answer."""
    lasted = [
        max(answer.ended_at for answer in answers) - min(answer.arrived_at for answer in answers)
        for answers in repetitions
    ]
    return statistics.fmean(lasted) if lasted else 0.0


def recorded_fleet(job: Job, shapes: Sequence[Shape]) -> FleetShape:
    """Return the strategy that most requests had, with the number of workers that answered them."""
    strategies = Counter(shape.strategy for shape in shapes if shape.strategy is not None)
    strategy = strategies.most_common(1)[0][0] if strategies else job.fleet.strategy
    workers = {shape.worker for shape in shapes if shape.worker is not None}
    return FleetShape(strategy, len(workers) or job.fleet.workers, job.fleet.cache_tokens)


def measured_figures(shapes: Sequence[Shape]) -> Figures | None:
    """Return the measured figures of the requests that count, or None if no answer was streamed."""
    counting = shapes[int(min(WARM_UP_SHARE * len(shapes), len(shapes) - 1)) :]
    times = [shape.ttft_s for shape in counting if shape.ttft_s is not None]
    if not times:
        return None
    reported = [(shape.cached_tokens, shape.prompt_tokens) for shape in counting if shape.cached_tokens is not None]
    tokens = sum(prompt for _, prompt in reported)
    return _figures(times, sum(cached for cached, _ in reported) / tokens if tokens else None)


def _figures(times: Sequence[float], hit_ratio: float | None) -> Figures:
    ordered = sorted(times)
    p50, p90, p99 = (ordered[len(ordered) * percent // 100] for percent in (50, 90, 99))
    return Figures(len(ordered), statistics.fmean(ordered), p50, p90, p99, hit_ratio)


def token_usd(job: Job, scale: float) -> float | None:
    """Return the price of a prompt token that need not be computed, or None without prices."""
    if job.gpu_hour_usd is None:
        return job.saved_token_usd
    return job.gpu_hour_usd / HOUR_S * scale * statistics.fmean(each.prefill_s_per_token for each in job.engines)


def savings_of(
    shapes: Sequence[Shape],
    recorded: Sequence[Sequence[Answer]],
    robin: Sequence[Sequence[Answer]],
    usd: float | None,
) -> list[Saved]:
    """Return what the *recorded* placement saved by team, compared with round robin. Both are replays."""
    tokens: defaultdict[str | None, float] = defaultdict(float)
    seconds: defaultdict[str | None, float] = defaultdict(float)
    for sign, repetitions in ((1.0, recorded), (-1.0, robin)):
        for answers in repetitions:
            for answer in answers:
                team = shapes[answer.number].team
                tokens[team] += sign * answer.cached_tokens / len(repetitions)
                seconds[team] -= sign * answer.ttft_s / len(repetitions)
    requests = Counter(shape.team for shape in shapes)
    prompts = Counter[str | None]()
    for shape in shapes:
        prompts[shape.team] += shape.prompt_tokens
    return [
        Saved(
            team,
            requests[team],
            prompts[team],
            round(tokens[team]),
            seconds[team],
            None if usd is None else tokens[team] * usd,
        )
        for team in sorted(requests, key=lambda name: name or "")
    ]
