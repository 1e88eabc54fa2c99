"""Batches from their creation to their end, with lines that an application in this process answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cache_index import Prefix, WorkerId
from gateway.batch import line_runner, runner
from gateway.batch.batch import BatchInfo, TeamBatch, batch_in, new_batch
from gateway.batch.batch_files import BatchFiles
from gateway.batch.contents import Contents, ContentWriter, LocalContent
from gateway.batch.counters import BatchCounters
from gateway.batch.events import BatchEvents
from gateway.batch.identity import Urgency
from gateway.batch.lane import Lane
from gateway.batch.line_runner import LineRunner
from gateway.batch.line_store import BatchRef, LineResult
from gateway.batch.plan import PlanJob, Planned, packed, plan
from gateway.batch.records import Record
from gateway.batch.runner import BatchRunner
from gateway.batch.sqlite_records import SqliteRecords
from gateway.protocol.errors import InvalidKey, UnknownModel
from gateway.tenancy.alerts.sqlite_alerts import SqliteAlerts
from gateway.tenancy.ledger import sqlite_usage
from gateway.tenancy.ledger.sqlite_usage import SqliteUsage
from gateway.tenancy.ledger.usage_store import Period, RecordQuery
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team
from routing.booking import Ending, Outcome
from routing.request import Request
from tests.fakes.backends import Answers
from tests.gateway.batch.examples import NOW, TYPE, a_form, content_of, in_pieces, names_in
from tests.gateway.batch.test_batches import FIELDS, RULES, Stage
from tests.gateway.examples import Clock, a_model, the_models
from tests.gateway.tenancy.ledger.examples import an_entry

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


def of_blue(batch_id: str) -> BatchRef:
    return BatchRef("blue", batch_id)


class _App:
    """Answers each line with the next of *statuses* for its input, and with 200 after them."""

    def __init__(self, **statuses: list[int]) -> None:
        self.statuses = statuses
        self.asked: list[str] = []
        self.model = a_model(Answers(), Answers())
        self.workers: list[frozenset[WorkerId] | None] = []
        self.interrupted: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        name = json.loads((await receive())["body"])["input"]
        self.asked.append(name)
        scope["entries"].append(an_entry(request_id=name, cost_usd=0.25))
        self.workers.append(scope["workers"])
        fleet = self.model.fleet
        request = Request(Prefix(b""), 4, 1.0, 1.0, streams=False, allowed=scope["workers"])
        booking = fleet.bookings.book(request, fleet.candidates(request, 0.0)[0], 0.0)
        assert booking is not None
        interruption = scope["interruption"]
        try:
            if interruption is not None:
                interruption.begin(_canceller())
            await self.may_answer.wait()
        except asyncio.CancelledError:
            if interruption is None or not interruption.is_done:
                raise
            self.interrupted.append(name)
            return
        finally:
            fleet.bookings.release(booking, Outcome(Ending.ABORTED), 0.0)
        left = self.statuses.get(name)
        status = left.pop(0) if left else 200
        headers = [(b"retry-after", b"0")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"usage":{"prompt_tokens":3}}'})


def _canceller() -> Callable[[], object]:
    task = asyncio.current_task()
    assert task is not None
    return task.cancel


class _Identity:
    is_valid = True

    def __init__(self) -> None:
        self.urgencies: set[Urgency] = set()

    def caller(self, key: str, team: str, urgency: Urgency) -> Caller:
        self.urgencies.add(urgency)
        if not self.is_valid:
            raise InvalidKey("The key is blocked")
        return Caller(Team(name=team), Key(id=key, team=team, digest=""))

    def lend(self, secret: str, caller: Caller) -> None: ...

    def take_back(self, secret: str) -> None: ...


class Running:
    """A gateway that runs batches: `create` makes one of lines with the given inputs."""

    def __init__(self, stage: Stage, app: _App, webhooks: Mapping[str, Collection[str] | None] | None = None) -> None:
        self.stage = stage
        self.app = app
        self.identity = _Identity()
        self.clock = Clock(NOW)
        self.counters = BatchCounters()
        self.line_runners: list[LineRunner] = []
        self.lane = Lane(the_models(app.model), per_worker=2, interrupts=lambda _model: True)
        self.event_store = SqliteAlerts(stage.file, wall_clock=self.clock, name="batch_event")
        self.events = BatchEvents(self.event_store, webhooks or {}, wall_clock=self.clock)
        self.runner = self.another()
        stage.batches.on_change = self.runner.look

    def another(self) -> BatchRunner:
        return BatchRunner(
            *(self.stage.store, self.stage.lines, self.stage.files, RULES),
            planner=_planned,
            check_model=_check_model,
            line_runner=self._line_runner,
            events=self.events,
            counters=self.counters,
            wall_clock=self.clock,
        )

    def _line_runner(self, batch: TeamBatch, files: BatchFiles) -> LineRunner:
        made = LineRunner(
            *(batch, files),
            app=self.app,
            lines=self.stage.lines,
            lane=self.lane,
            counters=self.counters,
            identity=self.identity,
            lease_s=10.0,
            raise_before_s=3600.0,
            wall_clock=self.clock,
        )
        self.line_runners.append(made)
        return made

    async def create(
        self, *names: str, model: str = "tiny", lines: list[Any] | None = None, url: str = FIELDS["endpoint"]
    ) -> str:
        made = [
            {"custom_id": name, "method": "POST", "url": url, "body": {"model": model, "input": name}} for name in names
        ]
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines or made)
        file = await self.stage.files.upload("blue", TYPE, in_pieces(a_form(content)))
        return await self.stage.created(input_file_id=file.id, endpoint=url)

    async def find(self, batch_id: str) -> TeamBatch:
        record = await self.stage.store.find("blue", batch_id)
        assert record is not None
        return batch_in(record)

    async def reached(self, batch_id: str, *statuses: str) -> TeamBatch:
        async with asyncio.timeout(50):
            while (batch := await self.find(batch_id)).info.status not in statuses:
                await asyncio.sleep(0.005)
        return batch

    async def ended(self, batch_id: str) -> TeamBatch:
        return await self.reached(batch_id, "completed", "failed", "expired", "cancelled")

    async def completed(self, batch_id: str, lines: int) -> None:
        async with asyncio.timeout(50):
            while (
                progress := await self.stage.lines.progress(of_blue(batch_id))
            ) is None or progress.completed < lines:
                await asyncio.sleep(0.005)

    async def ids(self, file_id: str | None) -> list[str]:
        if file_id is None:
            return []
        content = await content_of(self.stage.files, "blue", file_id)
        return [json.loads(line)["custom_id"] for line in content.splitlines()]


async def _planned(job: PlanJob, content: LocalContent, writer: ContentWriter) -> Planned:
    job = msgspec.structs.replace(job, input=f"/dev/fd/{content.file.fileno()}")
    found, lines = await asyncio.to_thread(plan, job)
    await writer.write(packed(lines))
    return found


def _check_model(_batch: TeamBatch, asked: str) -> None:
    if asked != "tiny":
        raise UnknownModel(f"The model {asked!r} is not served")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOOK_S", 0.01)
    monkeypatch.setattr(runner, "AGAIN_S", 0.01)
    monkeypatch.setattr(line_runner, "IDLE_S", 0.01)


@asynccontextmanager
async def running(
    storage: Path | Contents,
    app: _App | None = None,
    *,
    gateways: int = 1,
    webhooks: Mapping[str, Collection[str] | None] | None = None,
) -> AsyncIterator[Running]:
    stage = Stage(storage)
    await stage.file.run(sqlite_usage.create)
    found = Running(stage, app or _App(), webhooks)
    async with asyncio.TaskGroup() as tasks:
        loops = [tasks.create_task(found.runner.run())]
        loops += [tasks.create_task(found.another().run()) for _ in range(gateways - 1)]
        yield found
        for loop in loops:
            loop.cancel()
    await stage.file.aclose()


async def test_a_batch_runs_to_its_end(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        batch = await gateway.ended(await gateway.create("c", "a", "b"))

        assert ("completed", 3, 3, 0) == (batch.info.status, batch.info.total, batch.info.completed, batch.info.failed)
        assert ["c", "a", "b"] == await gateway.ids(batch.info.output_file_id)
        assert {"prompt_tokens": 9} == {
            name: value for name, value in msgspec.to_builtins(batch.info.usage).items() if value
        }
        async with asyncio.timeout(50):
            while len(names_in(tmp_path)) > 2:
                await asyncio.sleep(0.005)
        assert {batch.info.input_file_id, batch.info.output_file_id} == set(names_in(tmp_path))
        assert NOW + 1000 == batch.record.due_at


async def test_several_gateways_share_a_batch(tmp_path: Path) -> None:
    """Every line runs once, since no gateway dies."""
    app = _App()
    names = [str(n) for n in range(9)]
    async with running(tmp_path, app, gateways=3) as gateway:
        batch = await gateway.ended(await gateway.create(*names))

        assert names == await gateway.ids(batch.info.output_file_id)
    assert names == sorted(app.asked)


async def test_lines_that_failed_are_tried_again(tmp_path: Path) -> None:
    """A worker that fails has three attempts, and a limit that is reached has as many as it takes."""
    app = _App(a=[502, 500], b=[500, 502, 504], c=[503] * 5, d=[400])
    async with running(tmp_path, app) as gateway:
        batch = await gateway.ended(await gateway.create("a", "b", "c", "d"))

        assert ({"completed": 2, "failed": 2}, {"completed": 1}) == (
            +gateway.counters.lines,
            +gateway.counters.ended,
        )
        assert ["a", "c"] == await gateway.ids(batch.info.output_file_id)
        assert ["b", "d"] == await gateway.ids(batch.info.error_file_id)
        records = (await SqliteUsage(gateway.stage.file).records(RecordQuery(period=Period.month("2026-11")))).items
    assert (3, 3, 6, 1) == tuple(map(app.asked.count, "abcd"))
    assert ["a", "b", "c", "d"] == sorted(each.request_id for each in records)
    assert ({"retried": 9}, {"retried": 9 * 250_000_000}) == (
        +gateway.counters.discarded,
        +gateway.counters.discarded_nano,
    )


async def test_faults_of_lines_end_a_batch(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        malformed = await gateway.ended(await gateway.create(lines=["text"]))
        unknown = await gateway.ended(await gateway.create("a", model="huge"))

    assert ("failed", ["invalid_json_line"]) == (malformed.info.status, [each.code for each in malformed.info.errors])
    assert [("model_not_found", "body.model", 1)] == [
        (each.code, each.param, each.line) for each in unknown.info.errors
    ]
    assert [] == gateway.app.asked


async def test_a_batch_whose_file_is_gone_fails(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        info = BatchInfo("/v1/embeddings", "file-gone", "ci", int(NOW), int(NOW) + 100)
        await gateway.stage.store.add(new_batch("batch_1", "blue", info).record, max_count=9, max_size=0)
        batch = await gateway.ended("batch_1")

    assert ["input_file_missing"] == [each.code for each in batch.info.errors]


async def test_lines_of_a_refused_key_are_answered_so(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        gateway.identity.is_valid = False
        batch = await gateway.ended(await gateway.create("a", "b"))

        assert ("completed", 0, 2) == (batch.info.status, batch.info.completed, batch.info.failed)
        assert ["a", "b"] == await gateway.ids(batch.info.error_file_id)
    assert [] == gateway.app.asked


async def test_a_cancelled_batch_ends_after_its_lines_in_flight(tmp_path: Path) -> None:
    """Lines that wait for their turn do not start."""
    async with running(tmp_path) as gateway:
        gateway.app.may_answer.clear()
        batch_id = await gateway.create(*"abcdefghi")
        async with asyncio.timeout(50):
            while len(gateway.app.asked) < 4:
                await asyncio.sleep(0.005)
        await gateway.stage.batches.cancel("blue", batch_id)
        async with asyncio.timeout(50):
            await gateway.line_runners[-1]._stopped.wait()
        gateway.app.may_answer.set()
        batch = await gateway.ended(batch_id)

        assert ("cancelled", 4) == (batch.info.status, len(gateway.app.asked))
        done, missing = await gateway.ids(batch.info.output_file_id), await gateway.ids(batch.info.error_file_id)
        assert (4, list("abcdefghi")) == (len(done), sorted(done + missing))


async def test_a_batch_ends_when_its_time_is_over(tmp_path: Path) -> None:
    async with running(tmp_path, _App(a=[503] * 10_000)) as gateway:
        batch_id = await gateway.create("a", "b")
        async with asyncio.timeout(50):
            while "b" not in gateway.app.asked or "a" not in gateway.app.asked:
                await asyncio.sleep(0.005)
        gateway.clock.now = NOW + 86_400
        batch = await gateway.reached(batch_id, "expired")

        assert (["b"], ["a"]) == (
            await gateway.ids(batch.info.output_file_id),
            await gateway.ids(batch.info.error_file_id),
        )


async def test_lines_of_a_gateway_that_died_run_again(tmp_path: Path) -> None:
    """Their first result counts, and nothing is in the output twice."""
    async with running(tmp_path) as gateway:
        gateway.app.may_answer.clear()
        batch_id = await gateway.create(*"abcdefghi")
        await gateway.reached(batch_id, "in_progress")
        dead = await gateway.stage.lines.claim(of_blue(batch_id), "dead", 2, now=NOW, until=NOW + 10)
        gateway.app.may_answer.set()
        async with asyncio.timeout(50):
            while (
                progress := await gateway.stage.lines.progress(of_blue(batch_id))
            ) is None or progress.completed < 9 - len(dead):
                await asyncio.sleep(0.005)
        assert "in_progress" == (await gateway.find(batch_id)).info.status
        gateway.clock.now = NOW + 11
        batch = await gateway.ended(batch_id)

        assert list("abcdefghi") == await gateway.ids(batch.info.output_file_id)


async def test_the_answer_to_a_line_that_ran_elsewhere_meanwhile_is_discarded(tmp_path: Path) -> None:
    """The ledger has the run of the other gateway, because the output has it."""
    async with running(tmp_path) as gateway:
        gateway.app.may_answer.clear()
        batch_id = await gateway.create("a")
        async with asyncio.timeout(50):
            while not gateway.app.asked:
                await asyncio.sleep(0.005)
        appender = BatchFiles(gateway.stage.files.contents, batch_id).appender("elsewhere")
        piece = await appender.append(b"{}\n")
        await appender.close()
        result = LineResult(*piece, 3, ok=False)
        assert await gateway.stage.lines.finish(of_blue(batch_id), 0, result, an_entry(request_id="elsewhere"))
        gateway.app.may_answer.set()
        await gateway.ended(batch_id)
        records = (await SqliteUsage(gateway.stage.file).records(RecordQuery(period=Period.month("2026-11")))).items

    assert ["elsewhere"] == [each.request_id for each in records]
    assert ({"late": 1}, {}) == (+gateway.counters.discarded, +gateway.counters.lines)


async def test_a_gateway_that_stops_starts_no_more_lines(tmp_path: Path) -> None:
    """Although requests that are cancelled are answered, as callers expect it. Their lines run again later."""
    app = _App()

    async def answering(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    async with running(tmp_path, app) as gateway:
        gateway.app = answering  # type: ignore[assignment]
        app.may_answer.clear()
        batch_id = await gateway.create(*"abcdefghi")
        async with asyncio.timeout(50):
            while len(app.asked) < 4:
                await asyncio.sleep(0.005)

    assert 4 == len(app.asked)
    assert {"stopped": 4} == +gateway.counters.discarded
    assert not app.may_answer.is_set()
    assert batch_id


async def test_an_old_batch_is_removed(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        batch_id = await gateway.create("a")
        await gateway.ended(batch_id)
        gateway.clock.now = NOW + 1001
        async with asyncio.timeout(50):
            while await gateway.stage.store.find("blue", batch_id) is not None:
                await asyncio.sleep(0.005)


async def test_a_batch_that_another_gateway_ended_a_moment_ago_is_not_removed(tmp_path: Path) -> None:
    """A store with several calls can return a batch that was due before it ended."""

    class Slow(SqliteRecords):
        async def due(self, now: float, limit: int) -> list[Record]:
            return await super().due(now + 1000, limit)

    async with running(tmp_path) as gateway:
        batch_id = await gateway.create("a")
        await gateway.ended(batch_id)
        gateway.stage.store = Slow(gateway.stage.file, "batch")
        late = gateway.another()
        (record,) = await gateway.stage.store.due(NOW, 10)
        await late._work(record)

        assert "completed" == (await gateway.find(batch_id)).info.status


async def test_an_error_of_one_batch_does_not_end_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the work on the batch is repeated."""
    async with running(tmp_path) as gateway:
        gateway.app.may_answer.clear()
        broken = await gateway.create("a")
        await gateway.reached(broken, "in_progress")
        async with asyncio.timeout(50):
            while not gateway.app.asked:
                await asyncio.sleep(0.005)
        plan_file = tmp_path / f"{broken}.plan"
        data = plan_file.read_bytes()
        plan_file.unlink()
        gateway.app.may_answer.set()
        other = await gateway.ended(await gateway.create("b"))
        assert "completed" == other.info.status
        async with asyncio.timeout(50):
            while "does not have the content of the file: No such file or directory" not in caplog.text:
                await asyncio.sleep(0.005)
        plan_file.write_bytes(data)

        assert "completed" == (await gateway.ended(broken)).info.status
    assert 1 == caplog.text.count("files.folder")
    assert "Traceback" not in caplog.text


async def test_lines_run_on_the_workers_of_their_ranges(tmp_path: Path) -> None:
    """Each line names one worker, and no fallback answers it."""
    app = _App()
    async with running(tmp_path, app) as gateway:
        await gateway.ended(await gateway.create(*"abcdef"))

        assert {frozenset([worker.id]) for worker in app.model.fleet} >= set(app.workers)
        assert {"patient"} == gateway.identity.urgencies


async def test_lines_of_a_batch_near_its_end_are_raised(tmp_path: Path) -> None:
    """Any worker and any fallback can answer them."""
    app = _App()
    async with running(tmp_path, app) as gateway:
        app.may_answer.clear()
        batch_id = await gateway.create(*"abcdef")
        async with asyncio.timeout(50):
            while len(app.asked) < 4:
                await asyncio.sleep(0.005)
        gateway.clock.now = NOW + 86_400 - 3600
        app.may_answer.set()
        await gateway.ended(batch_id)

        assert [None, None] == app.workers[4:]
        assert {"patient", "raised"} == gateway.identity.urgencies


async def test_a_batch_goes_on_after_most_of_a_day_without_gateways(tmp_path: Path) -> None:
    app, stage = _App(), Stage(tmp_path)
    await stage.file.run(sqlite_usage.create)
    gateway = Running(stage, app)
    async with asyncio.TaskGroup() as tasks:
        app.may_answer.clear()
        former = tasks.create_task(gateway.runner.run())
        batch_id = await gateway.create(*"abcdefghi")
        async with asyncio.timeout(50):
            while len(app.asked) < 4:
                await asyncio.sleep(0.005)
        former.cancel()
    gateway.clock.now = NOW + 86_400 - 10
    app.may_answer.set()
    async with asyncio.TaskGroup() as tasks:
        later = tasks.create_task(gateway.another().run())
        batch = await gateway.ended(batch_id)
        later.cancel()

    assert "completed" == batch.info.status
    assert list("abcdefghi") == await gateway.ids(batch.info.output_file_id)
    await stage.file.aclose()


async def test_a_line_that_was_interrupted_runs_again_on_the_same_worker(tmp_path: Path) -> None:
    """It is the next line of this worker, and it has one output."""
    app = _App()
    async with running(tmp_path, app) as gateway:
        app.may_answer.clear()
        batch_id = await gateway.create("a", url="/v1/responses")
        async with asyncio.timeout(50):
            while not app.asked:
                await asyncio.sleep(0.005)
            now, fleet = app.model.dispatch_queue.now, app.model.fleet
            request = Request(Prefix(b""), 4, 1.0, 1.0, allowed=app.workers[0])
            chat = fleet.bookings.book(request, fleet.candidates(request, now)[0], now)
            assert chat is not None
            while not app.interrupted:
                await asyncio.sleep(0.005)
        fleet.bookings.release(chat, Outcome(Ending.ABORTED), now)
        app.may_answer.set()
        batch = await gateway.ended(batch_id)

        assert (["a"], ["a", "a"]) == (app.interrupted, app.asked)
        assert 1 == len(set(app.workers))
        assert ["a"] == await gateway.ids(batch.info.output_file_id)
        assert ({"tiny": 1}, 1) == (gateway.counters.interruptions, gateway.counters.lines["completed"])
