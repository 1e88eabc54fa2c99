"""What is asked of one worker, what the answers mean, and what the fleet is notified."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from cache_index import CacheIndex
from gateway.backends.client import WorkerClient
from gateway.backends.engine_metrics import EngineReading, Observation
from gateway.backends.probe import WorkerProbe
from gateway.workers.health_checker import HealthChecker, HealthTarget
from routing.fleet import Fleet
from routing.worker import Worker
from tests.fakes.engine import Answer, FakeEngine, Garbage, Hangs, Page, fake_engine
from tests.gateway.examples import Clock
from tests.routing.examples import A, B, a_fleet, a_request, an_index, book

TIMEOUT_S = 1.0  # for engines that hang; long enough that a busy machine does not make others seem to
LOADS_PATH = "/v1/loads?include=core"
SLOW = Page("ok", after_s=10.0)
"""SGLang's health: a token is generated first."""
SGLANG = Page("sglang:num_running_reqs 1\nsglang:max_total_num_tokens 4096\nsglang:page_size 16\n")


def vllm(*, started_at: float | None = 7.0, blocks: int | None = None, asleep: bool | None = None) -> Page:
    lines = ['vllm:num_requests_running{engine="0"} 3.0']
    if started_at is not None:
        lines.append(f"process_start_time_seconds {started_at}")
    if blocks is not None:
        lines.append(f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{blocks}"}} 1.0')
    if asleep is not None:
        lines.append(f'vllm:engine_sleep_state{{engine="0",sleep_state="awake"}} {float(not asleep)}')
        lines.append(f'vllm:engine_sleep_state{{engine="0",sleep_state="weights_offloaded"}} {float(asleep)}')
    return Page("\n".join(lines) + "\n")


@dataclass
class Practice:
    """Worker a, taken to be down, under observation; and b, which is up."""

    engine: FakeEngine
    fleet: Fleet
    index: CacheIndex
    clock: Clock
    checker: HealthChecker
    reported_down: list[str] = field(default_factory=list)
    """Workers that were up when a was reported to be down."""
    reported_up: list[str] = field(default_factory=list)
    """Candidates when a was reported to have come up."""
    observations: list[Observation] = field(default_factory=list)
    """Observations of a."""

    @property
    def worker(self) -> Worker:
        return next(worker for worker in self.fleet if worker.id == A)

    async def visit(self, now: float | None = None) -> bool:
        """Whether a is up after one more visit."""
        if now is not None:
            self.clock.now = now
        await self.checker.visit()
        return self.worker.is_up

    def candidates(self) -> str:
        return "".join(each.worker for each in self.fleet.candidates(a_request(), self.clock.now))


@asynccontextmanager
async def practice(
    answers: dict[str, Answer],
    *,
    path: str = "/health",
    timeout_s: float = 5.0,
    failures_to_down: int = 2,
    successes_to_up: int = 1,
    metrics_interval_s: float = 5.0,
) -> AsyncIterator[Practice]:
    index = an_index()
    fleet = a_fleet(A, B, index=index)
    fleet.set_up(A, up=False)
    clock = Clock(0.0)
    reported_down: list[str] = []
    reported_up: list[str] = []
    observations: list[Observation] = []
    async with fake_engine(answers) as engine, WorkerClient() as client:
        target = HealthTarget(
            A,
            engine.url,
            fleet,
            "tiny",
            lambda: reported_down.append("".join(worker.id for worker in fleet if worker.is_up)),
            observations.append,
            came_up=lambda: reported_up.append(
                "".join(each.worker for each in fleet.candidates(a_request(), clock.now))
            ),
        )
        checker = HealthChecker(
            target,
            WorkerProbe(client, engine.url, timeout_s=timeout_s),
            path=path,
            failures_to_down=failures_to_down,
            successes_to_up=successes_to_up,
            metrics_interval_s=metrics_interval_s,
            kept_s=20.0,
            clock=clock,
        )
        yield Practice(engine, fleet, index, clock, checker, reported_down, reported_up, observations)


COUNTS = Page('vllm:generation_tokens_total{engine="0"} 40.0\n')


async def test_an_engine_is_read_before_its_turn() -> None:
    """At once, with the moment at which it was asked; its turn comes all the same."""
    async with practice({"/health": Page(), "/metrics": COUNTS}, metrics_interval_s=5.0) as there:
        await there.visit(10.0)
        there.clock.now = 11.0
        await there.checker.read_now()
        await there.visit(14.9)
        await there.visit(15.0)

    assert [(40.0, at, at) for at in (10.0, 11.0, 15.0)] == [
        (each.reading.generated, each.asked_at, each.read_at) for each in there.observations
    ]


@pytest.mark.parametrize("page", [Page(status=500), Garbage()])
async def test_a_reading_before_its_turn_may_fail(page: Answer) -> None:
    """What was read before stays, and the worker is as it was."""
    async with practice({"/health": Page(), "/metrics": COUNTS}) as there:
        await there.visit(10.0)
        there.engine.answers["/metrics"] = page
        await there.checker.read_now()

        assert 1 == len(there.observations)
        assert there.worker.is_up


async def test_a_worker_that_is_down_is_not_read_before_its_turn() -> None:
    """There is no one to ask."""
    async with practice({"/health": Page(status=500), "/metrics": COUNTS}) as there:
        await there.visit(10.0)
        await there.checker.read_now()

        assert [] == there.observations
        assert 0 == there.engine.times("/metrics")


# ---- up and down


@pytest.mark.parametrize(
    ("status", "up"), [(200, True), (204, True), (301, True), (404, True), (500, False), (503, False)]
)
async def test_whatever_is_below_500_is_alive(status: int, up: bool) -> None:
    """An engine without such a path answers 404, and lives."""
    async with practice({"/health": Page(status=status)}) as there:
        assert up is await there.visit()


@pytest.mark.parametrize("ill", [Page(status=500), Hangs(), Garbage()])
async def test_a_worker_is_down_after_failures_in_a_row(ill: Answer) -> None:
    """One may be bad luck: an error status, silence, a broken connection."""
    async with practice({"/health": Page()}, failures_to_down=3, timeout_s=TIMEOUT_S) as there:
        await there.visit()
        there.engine.answers["/health"] = ill

        assert [True, True, False] == [await there.visit() for _ in range(3)]
        there.engine.answers["/health"] = Page()
        assert await there.visit()


async def test_that_a_worker_went_down_is_reported_once() -> None:
    """When the fleet knows it already, and not of a worker that never was up."""
    async with practice({"/health": Page(status=500)}, failures_to_down=1) as there:
        await there.visit()
        assert [] == there.reported_down
        for status in (200, 500, 500):
            there.engine.answers["/health"] = Page(status=status)
            await there.visit()

        assert ["b"] == there.reported_down


async def test_a_good_check_in_between_starts_the_count_again() -> None:
    """Only failures in a row count."""
    async with practice({}, failures_to_down=2) as there:
        ups = []
        for status in (200, 500, 200, 500, 200):
            there.engine.answers["/health"] = Page(status=status)
            ups.append(await there.visit())

        assert [True] * 5 == ups


async def test_who_was_not_to_be_reached_meanwhile_is_up_with_the_next_good_check() -> None:
    """A request found no one there and took it out; no check has failed. A bad check brings no one back."""
    async with practice({"/health": Page()}) as there:
        assert await there.visit()
        reported: list[int] = []
        there.checker.target.came_up = lambda: reported.append(there.worker.incarnation)
        assert await there.visit()
        there.fleet.set_up(A, up=False)
        there.engine.answers["/health"] = Page(status=500)
        assert not await there.visit()
        there.engine.answers["/health"] = Page()

        assert await there.visit()
        assert [there.worker.incarnation] == reported


async def test_a_worker_comes_up_after_good_checks_in_a_row() -> None:
    """The settings say how many."""
    async with practice({}, successes_to_up=2) as there:
        ups = []
        for status in (200, 500, 200, 200):
            there.engine.answers["/health"] = Page(status=status)
            ups.append(await there.visit())

        assert [False, False, False, True] == ups


async def test_a_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An operator reads when a worker came and went, not that it is still there."""
    caplog.set_level(logging.INFO, "gateway.workers.health_checker")
    async with practice({}, failures_to_down=1) as there:
        for status in (200, 200, 500, 500):
            there.engine.answers["/health"] = Page(status=status)
            await there.visit()

    assert [
        ("INFO", "worker a of model tiny is up"),
        ("WARNING", "worker a of model tiny is down: GET /health returned status 500"),
    ] == [(record.levelname, record.getMessage()) for record in caplog.records]


async def test_a_worker_that_never_came_up_is_logged_with_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    """Once, and again after it was up."""
    caplog.set_level(logging.WARNING, "gateway.workers.health_checker")
    async with practice({}, failures_to_down=1) as there:
        for status in (503, 503, 200, 500, 500):
            there.engine.answers["/health"] = Page(status=status)
            await there.visit()

    assert [
        "worker a of model tiny is down: GET /health returned status 503",
        "worker a of model tiny is down: GET /health returned status 500",
    ] == caplog.messages


async def test_the_cause_is_that_of_the_health_check(caplog: pytest.LogCaptureFixture) -> None:
    """The pages that show the kind of the engine were read as well, and failed too."""
    caplog.set_level(logging.WARNING, "gateway.workers.health_checker")
    async with practice({"/health": SLOW}, timeout_s=TIMEOUT_S) as there:
        await there.visit()
        assert LOADS_PATH in there.engine.asked

    assert [f"worker a of model tiny is down: GET /health timed out after {TIMEOUT_S:g} s"] == caplog.messages


# ---- SGLang


async def test_sglang_is_asked_whether_it_is_ready() -> None:
    """Its `/health` takes longer than the timeout: silence makes the gateway look whether it is SGLang."""
    async with practice({"/health": SLOW, "/metrics": SGLANG, "/ready": Page()}, timeout_s=TIMEOUT_S) as there:
        assert await there.visit()
        there.engine.asked.clear()
        assert await there.visit()
        assert ["/ready"] == there.engine.asked


async def test_sglang_without_metrics_is_known_by_its_loads() -> None:
    """They are there in either case."""
    loads = Page('{"loads":[{"num_running_reqs":5,"num_waiting_reqs":1,"max_total_num_tokens":4096}]}')
    async with practice({"/health": SLOW, LOADS_PATH: loads, "/ready": Page()}, timeout_s=TIMEOUT_S) as there:
        assert await there.visit()
        assert (4096, 1) == there.worker.engine_capacity


async def test_sglang_that_answers_its_health_is_asked_for_less() -> None:
    """Where the timeout is long enough the first check may generate a token; the next do not."""
    async with practice({"/health": Page(), "/metrics": SGLANG, "/ready": Page()}) as there:
        await there.visit()
        await there.visit()

        assert ["/health", "/metrics", "/ready"] == there.engine.asked


async def test_sglang_that_drains_is_down() -> None:
    """It answers 503 from SIGTERM on, and what it has begun it ends."""
    async with practice({"/health": Page(), "/metrics": SGLANG, "/ready": Page()}, failures_to_down=1) as there:
        await there.visit()
        there.engine.answers["/ready"] = Page(status=503)

        assert not await there.visit()


async def test_sglang_without_that_path_lists_its_models() -> None:
    """Older versions; they are asked for the one that they lack but once."""
    answers: dict[str, Answer] = {"/health": SLOW, "/metrics": SGLANG, "/v1/models": Page("{}")}
    async with practice(answers, timeout_s=TIMEOUT_S) as there:
        assert [True, True] == [await there.visit(), await there.visit()]
        assert (1, 2) == (there.engine.times("/ready"), there.engine.times("/v1/models"))


async def test_a_path_that_was_set_is_kept() -> None:
    """Anyone who set it had a reason."""
    answers: dict[str, Answer] = {"/alive": Page(), "/metrics": SGLANG, "/ready": Page(status=503)}
    async with practice(answers, path="/alive") as there:
        assert [True, True] == [await there.visit(), await there.visit()]
        assert 0 == there.engine.times("/ready")


async def test_another_engine_may_come_up_at_the_same_address() -> None:
    """What was found out is forgotten when a worker is down."""
    answers: dict[str, Answer] = {"/health": Page(), "/metrics": SGLANG, "/ready": Page()}
    async with practice(answers, failures_to_down=1) as there:
        await there.visit()
        there.engine.answers["/ready"] = Page(status=503)
        await there.visit()
        there.engine.answers = {"/health": Page(), "/metrics": vllm(), "/ready": Page(status=404)}

        assert await there.visit()
        assert "/health" in there.engine.asked[-2:]


async def test_a_silent_worker_that_is_known_is_not_looked_into() -> None:
    """One question each time, as long as it counts for up."""
    async with practice({"/health": Page(), "/metrics": vllm()}, timeout_s=TIMEOUT_S) as there:
        await there.visit()
        there.engine.asked.clear()
        there.engine.answers["/health"] = Hangs()
        await there.visit()

        assert ["/health"] == there.engine.asked


# ---- readings


async def test_a_reading_is_handed_on_with_its_time() -> None:
    """The gauges show it, with its age."""
    async with practice({"/health": Page(), "/metrics": vllm()}) as there:
        await there.visit(100.0)
        (observation,) = there.observations

    assert (100.0, 20.0, 3.0) == (observation.read_at, observation.kept_s, observation.reading.running)


async def test_the_capacity_is_learned() -> None:
    """Blocks, and tokens in each: it can hold so much of its prompts."""
    async with practice({"/health": Page(), "/metrics": vllm(blocks=2048)}) as there:
        await there.visit()

        assert (2048, 16) == there.worker.engine_capacity


async def test_a_restart_empties_the_index(caplog: pytest.LogCaptureFixture) -> None:
    """Another time of birth is another life; the worker need not even have been down."""
    caplog.set_level(logging.INFO, "gateway.workers.health_checker")
    async with practice({"/health": Page(), "/metrics": vllm()}, metrics_interval_s=0.0) as there:
        await there.visit()
        book(there.fleet, a_request("abcd"), 0.0, A)
        await there.visit()
        assert 4 == there.index.held(A)

        there.engine.answers["/metrics"] = vllm(started_at=8.0)
        await there.visit()
        assert 0 == there.index.held(A)
    assert "worker a of model tiny has restarted: its cache is empty" == caplog.messages[-1]


async def test_a_restart_is_seen_when_the_worker_comes_back() -> None:
    """Its metrics are read at once then, before their interval is over."""
    async with practice({"/health": Page(), "/metrics": vllm()}, failures_to_down=1) as there:
        await there.visit()
        book(there.fleet, a_request("abcd"), 0.0, A)
        there.engine.answers = {"/health": Garbage(), "/metrics": Garbage()}
        await there.visit()
        there.engine.answers = {"/health": Page(), "/metrics": vllm(started_at=8.0)}
        await there.visit()

        assert 0 == there.index.held(A)


@pytest.mark.parametrize(
    "page", [Hangs(), Page(), Page("<html>"), Page("process_start_time_seconds x"), vllm(started_at=None), Garbage()]
)
async def test_metrics_that_do_not_tell_are_no_restart(page: Answer) -> None:
    """A busy engine may be late with them: what it holds it still holds."""
    answers: dict[str, Answer] = {"/health": Page(), "/metrics": vllm()}
    async with practice(answers, metrics_interval_s=0.0, timeout_s=TIMEOUT_S) as there:
        await there.visit()
        book(there.fleet, a_request("abcd"), 0.0, A)
        for each in (page, vllm()):
            there.engine.answers["/metrics"] = each
            await there.visit()

        assert 4 == there.index.held(A)


async def test_metrics_are_read_less_often_than_health() -> None:
    """Once when the worker comes up, then every five seconds."""
    async with practice({"/health": Page(), "/metrics": vllm()}) as there:
        for now in (0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0):
            await there.visit(now)

        assert (7, 3) == (there.engine.times("/health"), there.engine.times("/metrics"))


async def test_the_metrics_of_a_worker_that_is_down_are_not_read() -> None:
    """There is nothing to be learned."""
    async with practice({"/health": Page(status=500), "/metrics": vllm()}) as there:
        await there.visit()

        assert ["/health"] == there.engine.asked


async def test_a_worker_that_reports_nothing_is_asked_rarely() -> None:
    """Three times at first, then once a minute; it is as good as any other."""
    async with practice({"/health": Page()}) as there:
        for now in range(0, 135, 5):
            assert await there.visit(float(now))

        # at 0, 5 and 10, then at 70 and 130
        assert 5 == there.engine.times("/metrics")
        assert "ab" == there.candidates()


async def test_a_worker_that_reported_once_is_asked_as_before() -> None:
    """It may be busy; when it is over its readings are wanted."""
    async with practice({"/health": Page(), "/metrics": vllm()}) as there:
        await there.visit(0.0)
        there.engine.answers["/metrics"] = Page(status=503)
        for now in range(5, 55, 5):
            await there.visit(float(now))

        assert 11 == there.engine.times("/metrics")
        assert 1 == len(there.observations)


# ---- who waits for a worker


async def test_who_waits_is_reported_when_a_worker_comes_up() -> None:
    """After the fleet knows; once, and again when it has been down."""
    async with practice({"/health": Page()}, failures_to_down=1) as there:
        for answer in (Page(), Page(), Page(status=500), Page()):
            there.engine.answers["/health"] = answer
            await there.visit()

        assert ["ab", "ab"] == there.reported_up
        assert 2 == there.fleet.members.incarnation(A)


async def test_who_waits_is_reported_when_a_worker_wakes() -> None:
    """Falling asleep is no reason to look again."""
    async with practice({"/health": Page(), "/metrics": vllm()}, metrics_interval_s=0.0) as there:
        await there.visit()
        for asleep in (True, False):
            there.engine.answers["/metrics"] = vllm(asleep=asleep)
            await there.visit()

        assert ["ab", "ab"] == there.reported_up


async def test_who_waits_is_reported_when_a_worker_has_restarted_unseen() -> None:
    """It lives another life, in which it may do what it failed at before."""
    async with practice({"/health": Page(), "/metrics": vllm()}, metrics_interval_s=0.0) as there:
        await there.visit()
        before = there.fleet.members.incarnation(A)
        there.engine.answers["/metrics"] = vllm(started_at=8.0)
        await there.visit()

        assert ["ab", "ab"] == there.reported_up
        assert before + 1 == there.fleet.members.incarnation(A)


# ---- sleep


async def test_a_worker_that_sleeps_gets_no_requests_until_it_wakes(caplog: pytest.LogCaptureFixture) -> None:
    """It is up all the while, and nothing that it could do is held against it."""
    caplog.set_level(logging.INFO, "gateway.workers.health_checker")
    answers: dict[str, Answer] = {"/health": Page(), "/metrics": vllm(asleep=False)}
    async with practice(answers, metrics_interval_s=0.0) as there:
        seen = []
        for asleep in (False, True, True, False):
            there.engine.answers["/metrics"] = vllm(asleep=asleep)
            await there.visit()
            seen.append((there.candidates(), there.worker.is_up))

        assert [("ab", True), ("b", True), ("b", True), ("ab", True)] == seen
        assert [] == there.reported_down
    assert ["worker a of model tiny is asleep", "worker a of model tiny is awake"] == caplog.messages[1:]


async def test_a_sleeper_whose_metrics_are_late_sleeps_on() -> None:
    """Until its last reading is too old to be believed: who does not tell is taken to be awake."""
    async with practice({"/health": Page(), "/metrics": vllm(asleep=True)}) as there:
        await there.visit(0.0)
        there.engine.answers["/metrics"] = Page(status=500)
        seen = []
        for now in (10.0, 20.0, 30.0):
            await there.visit(now)
            seen.append(there.candidates())

        assert ["b", "b", "ab"] == seen


async def test_an_engine_that_does_not_know_sleep_is_awake() -> None:
    """Also after one that slept at the same address."""
    async with practice({"/health": Page(), "/metrics": vllm(asleep=True)}, metrics_interval_s=0.0) as there:
        await there.visit()
        there.engine.answers["/metrics"] = vllm()
        await there.visit()

        assert "ab" == there.candidates()


def test_a_patients_headers_are_not_shown() -> None:
    """They may hold its key."""
    target = HealthTarget(A, "http://a.test", a_fleet(A), "tiny", lambda: None, headers={"authorization": "Bearer k-1"})
    target.on_reading(Observation(EngineReading(), 0.0, 1.0))  # no one need listen

    assert "k-1" not in repr(target)


# ---- adapters


async def test_a_worker_is_asked_for_its_adapters_with_its_metrics() -> None:
    """If somebody wants to know. What it cannot tell says nothing."""
    listed: list[tuple[list[str], float]] = []
    cards = '{"data":[{"id":"tiny","parent":null},{"id":"poet","parent":"tiny"}]}'
    async with practice({"/health": Page(), "/metrics": vllm(), "/v1/models": Page(cards)}) as there:
        await there.visit(1.0)
        unasked = "GET /v1/models" in " ".join(there.engine.heads)
        there.checker.target.wants_adapters = lambda: True
        there.checker.target.on_adapters = lambda names, asked_at: listed.append((names, asked_at))
        await there.visit(11.0)
        there.engine.answers["/v1/models"] = Garbage(b"")
        await there.visit(21.0)

    assert not unasked
    assert [(["poet"], 11.0)] == listed


# ---- several workers behind one address


@asynccontextmanager
async def shared(answers: dict[str, Answer]) -> AsyncIterator[Practice]:
    """Workers a and b are ranks 0 and 1 of one engine; both are taken to be down."""
    async with practice(answers) as there:
        there.fleet.set_up(B, up=False)
        there.checker.target.places = ((A, None, 0), (B, None, 1))
        yield there


def ranks(*, blocks: tuple[int, int] = (100, 50), asleep: tuple[int, int] = (0, 0), started_at: float = 7.0) -> Page:
    lines = [f"process_start_time_seconds {started_at}"]
    for rank in (0, 1):
        lines.append(f'vllm:num_requests_running{{engine="{rank}"}} {rank}')
        lines.append(f'vllm:cache_config_info{{block_size="16",engine="{rank}",num_gpu_blocks="{blocks[rank]}"}} 1.0')
        lines.append(f'vllm:engine_sleep_state{{engine="{rank}",sleep_state="awake"}} {1 - asleep[rank]}')
    return Page("\n".join(lines) + "\n")


async def test_who_shares_an_address_lives_and_dies_with_it() -> None:
    """One question is for all of them; one that a request found down comes up with the next."""
    async with shared({"/health": Page()}) as there:
        await there.visit()
        assert "ab" == there.candidates()
        there.fleet.set_up(B, up=False)
        await there.visit()
        assert ("ab", 2, ["ab", "ab"]) == (there.candidates(), there.engine.times("/health"), there.reported_up)
        there.engine.answers["/health"] = Page(status=500)
        for _ in range(2):
            await there.visit()

        assert ([False, False], [""]) == ([worker.is_up for worker in there.fleet], there.reported_down)


async def test_each_is_reported_what_the_reading_says_of_its_place() -> None:
    """Room and sleep; a process that begins again is all of them again."""
    async with shared({"/health": Page(), "/metrics": ranks()}) as there:
        await there.visit()
        assert [(100, 16), (50, 16)] == [worker.engine_capacity for worker in there.fleet]
        there.engine.answers["/metrics"] = ranks(asleep=(0, 1))
        await there.visit(10.0)
        assert ("a", 1) == (there.candidates(), len(there.reported_up))
        incarnations = [there.fleet.members.incarnation(worker) for worker in (A, B)]
        there.engine.answers["/metrics"] = ranks(started_at=8.0)
        await there.visit(20.0)

        assert "ab" == there.candidates()
        assert all(
            there.fleet.members.incarnation(worker) != before
            for worker, before in zip((A, B), incarnations, strict=True)
        )


async def test_a_rank_that_the_engine_has_not_gets_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """vLLM would call each request to it the caller's fault. The log reports once; after a restart it may be there."""
    async with shared({"/health": Page(), "/metrics": vllm()}) as there:
        await there.visit()
        await there.visit(10.0)
        assert "a" == there.candidates()
        assert 1 == sum("has fewer ranks" in record.message for record in caplog.records)
        there.engine.answers["/metrics"] = ranks()
        await there.visit(20.0)
        await there.visit(21.0)

        assert "ab" == there.candidates()
