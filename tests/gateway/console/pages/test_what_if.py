"""Facts about the page that replays requests with other settings. No job ever begins to run here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from gateway.api.admin_v1.parts import AdminGateway
from gateway.console.pages.what_if import rows, saved
from gateway.telemetry.shapes.segments import Segments
from gateway.telemetry.what_if.job import Change, Job
from gateway.telemetry.what_if.replays import result_of
from gateway.telemetry.what_if.runner import Replay, WhatIfRunner
from gateway.telemetry.what_if.what_if import WhatIf
from tests.fakes.backends import Answers
from tests.gateway.api.admin_v1.test_what_if import CONFIGURED, TRACE
from tests.gateway.console.consoled import SAME, Browser, Consoled, consoled
from tests.gateway.examples import a_draining, a_model, the_models
from tests.gateway.telemetry.what_if.examples import a_job, folder

PATH = "/console/what-if"


@asynccontextmanager
async def served(directory: Path | None) -> AsyncIterator[tuple[Consoled, WhatIfRunner]]:
    registry = the_models(a_model(Answers(), name="tiny"))
    files = None
    if directory is not None:
        files = Segments(directory, max_bytes=10**6, keep_s=1800.0, wall_clock=lambda: 1000.0)
    names = iter(f"r{number}" for number in range(100))
    runner = WhatIfRunner(lambda: 1000.0, new_id=lambda: next(names))
    what_if = WhatIf(runner, files, lambda: None, 32_768, lambda: 1000.0)
    gateway = AdminGateway(registry, lambda: [CONFIGURED], draining=a_draining(registry), what_if=what_if)
    async with consoled(gateway=gateway) as site:
        yield site, runner


def completed(runner: WhatIfRunner, directory: Path, *changes: Change) -> Replay:
    replay = runner.start(a_job(folder(directory), *changes, gpu_hour_usd=2.0))
    replay.result = result_of(replay.job, lambda _: None)
    replay.end("done")
    return replay


def job_of(runner: WhatIfRunner) -> Job:
    assert runner.latest is not None
    return runner.latest.job


async def text_of(browser: Browser, path: str = PATH) -> str:
    return unescape((await browser.get(path)).text)


async def test_without_recorded_requests_the_page_says_how_to_record_them() -> None:
    """An operator can still upload a trace."""
    async with served(None) as (site, _):
        operator, viewer = [await text_of(await site.logged_in(who)) for who in ("op", "vi")]

    assert ["request_shapes.enabled: true" in text for text in (operator, viewer)] == [True, True]
    assert ['type="file"' in text for text in (operator, viewer)] == [True, False]
    assert 'name="minutes"' not in operator


async def test_the_form_offers_what_is_kept(tmp_path: Path) -> None:
    """Requests of the last 30 minutes, and all strategies."""
    async with served(tmp_path) as (site, _):
        text = await text_of(await site.logged_in("op"))

    assert '<option value="30" selected>of the last 30 minutes</option>' in text
    assert "of the last 60 minutes" not in text
    assert '<option value="round_robin" selected>' in text
    assert 4 == text.count('<option value="kv_aware">')


async def test_a_viewer_sees_the_result_and_no_form(tmp_path: Path) -> None:
    async with served(tmp_path) as (site, runner):
        completed(runner, tmp_path, Change(workers=3))
        text = await text_of(await site.logged_in("vi"))

    assert ("Present, measured" in text, "Alternative 1" in text) == (True, True)
    assert "To start a replay, you need the role operator." in text
    assert 'action="/console/what-if' not in text


async def test_a_replay_is_started_shown_and_cancelled(tmp_path: Path) -> None:
    """The address of the page contains the replay and the values of the form."""
    async with served(tmp_path) as (site, runner):
        browser = await site.logged_in("op")
        started = await browser.submit(
            PATH, **{"minutes": "15", "strategy-1": "round_robin", "workers-1": "", "workers-3": "4", "cache-3": "2,5"}
        )
        location = started.headers["location"]
        assert f"{PATH}?replay=r0&minutes=15&strategy-1=round_robin&workers-3=4&cache-3=2%2C5" == location
        job = job_of(runner)
        next(iter(runner)).done = 0.42
        running = await text_of(browser, location)
        again = await browser.submit(PATH, minutes="15")
        busy = await text_of(browser, again.headers["location"])
        cancelled = await browser.submit(f"{PATH}/cancel")
        after = await text_of(browser, cancelled.headers["location"])

    assert ((Change("round_robin"), Change(workers=4, cache_factor=2.5)), 100.0) == (job.changes, job.since)
    assert ("42.0 % done" in running, 'value="0.420"' in running) == (True, True)
    assert "The replay has started." in running
    assert 'name="workers-3"' in running
    assert 'placeholder="as recorded" value="4"' in running
    assert "A replay is running. Wait for its end, or cancel it." in busy
    assert f"{PATH}?replay=r0" == cancelled.headers["location"]
    assert "The replay was cancelled, so it has no result." in after


async def test_nothing_is_cancelled_when_nothing_runs(tmp_path: Path) -> None:
    async with served(tmp_path) as (site, _):
        browser = await site.logged_in("op")
        answer = await browser.submit(f"{PATH}/cancel")

        assert PATH == answer.headers["location"]
        assert "No replay is running." in await text_of(browser)


async def test_a_trace_is_uploaded() -> None:
    """Browsers send a form with a file."""
    async with served(None) as (site, runner):
        browser = await site.logged_in("op")
        fields = {"csrf": (None, await browser.csrf()), "users": (None, "5"), "kv-events": (None, "yes")}
        files: Any = {**fields, "strategy-1": (None, "session"), "trace": ("a.jsonl", TRACE.encode())}
        answer = await browser.http.post(PATH, files=files, headers=SAME)
        job = job_of(runner)

    assert (303, f"{PATH}?replay=r0&users=5&kv-events=yes&strategy-1=session") == (
        answer.status_code,
        answer.headers["location"],
    )
    assert (TRACE, 5, True, (Change("session"),)) == (job.trace, job.users, job.has_kv_events, job.changes)


async def test_an_upload_needs_the_token_of_the_form() -> None:
    async with served(None) as (site, runner):
        browser = await site.logged_in("op")
        files: Any = {"csrf": (None, "x"), "trace": ("a.jsonl", TRACE.encode())}
        statuses = [
            (await browser.http.post(PATH, files=files, headers=headers)).status_code
            for headers in (SAME, {}, {"sec-fetch-site": "cross-site"})
        ]

    assert ([403, 403, 403], None) == (statuses, runner.latest)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"workers-2": "many"}, "The number of workers in alternative 2 must be a number above 0."),
        ({"cache-1": "-1"}, "The cache size in alternative 1 must be a number above 0."),
        ({"cache-1": "nan"}, "The cache size in alternative 1 must be a number above 0."),
        ({"minutes": "soon"}, "The number of minutes must be a number above 0."),
        ({"workers-1": "1.5"}, "workers"),
        ({"strategy-1": "<b>"}, "strategy"),
        ({"trace": "{}", "strategy-1": "session"}, "'trace' is not valid: The trace: line 1 has no field 'timestamp'."),
        ({"trace": "{}", "strategy-1": "session", "users": "x"}, "The number of sessions must be a number above 0."),
    ],
)
async def test_a_fault_keeps_the_values_of_the_form(fields: dict[str, str], said: str, tmp_path: Path) -> None:
    async with served(tmp_path) as (site, runner):
        browser = await site.logged_in("op")
        answer = await browser.submit(PATH, **fields, **{"workers-4": "7"})
        text = await text_of(browser, answer.headers["location"])

    assert (303, None) == (answer.status_code, runner.latest)
    assert said in text.partition('<p class="notice failed">')[2].partition("</p>")[0]
    assert 'placeholder="as recorded" value="7"' in text


async def test_viewers_start_and_cancel_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as (site, runner):
        runner.start(a_job(tmp_path))
        browser = await site.logged_in("vi")
        statuses = [(await browser.submit(path)).status_code for path in (PATH, f"{PATH}/cancel")]

    assert ([403, 403], "running") == (statuses, runner.status)


async def test_an_earlier_replay_has_its_own_address(tmp_path: Path) -> None:
    """The page of one that is no longer kept says so."""
    async with served(tmp_path) as (site, runner):
        first = completed(runner, tmp_path, Change("round_robin"))
        runner.start(a_job(tmp_path / "none"))
        runner._fail(next(iter(runner)), "no requests were recorded in this time")
        browser = await site.logged_in("op")
        latest, earlier = await text_of(browser), await text_of(browser, f"{PATH}?replay={first.id}")
        unknown = await text_of(browser, f"{PATH}?replay=none&strategy-1=session")

    assert ("no requests were recorded in this time" in latest, "Alternative 1" in latest) == (True, False)
    assert f'<a href="{PATH}?replay=r0">' in latest
    assert ("Present, replayed" in earlier, f'<a href="{PATH}?replay=r1">' in earlier) == (True, True)
    assert "This gateway no longer keeps this replay." in unknown
    assert '<option value="session" selected>' in unknown


async def test_a_gateway_without_replays_says_so() -> None:
    async with consoled() as site:
        assert "This gateway cannot replay requests." in await text_of(await site.logged_in("vi"))


def a_row(strategy: str, mean_s: float | None) -> dict[str, Any]:
    figures = None if mean_s is None else {"ttft_mean_s": mean_s}
    fleet = {"strategy": strategy, "workers": 2, "cache_tokens": 100}
    return {"fleet": fleet, "figures": figures, "gpu_hours": 1.0, "usd": None, "error": None}


def a_result(**known: Any) -> dict[str, Any]:
    return {"measured": None, "recorded": None, "alternatives": [], "savings": [], **known}


def test_alternatives_are_compared_with_the_replay_of_the_present() -> None:
    """Twice as long as the replay of the present, and half as long as what was measured."""
    found = rows(
        a_result(
            measured={"ttft_mean_s": 4.0},
            recorded=a_row("prefix_aware", 1.0),
            alternatives=[a_row("round_robin", 2.0), a_row("session", None)],
        )
    )

    assert [
        ("Present, measured", 100.0, None),
        ("Present, replayed", 25.0, None),
        ("Alternative 1", 50.0, 1.0),
        ("Alternative 2", 0.0, None),
    ] == [(row["name"], row["width"], row["change"]) for row in found]


def test_alternatives_of_a_trace_are_compared_with_the_first() -> None:
    found = rows(a_result(alternatives=[a_row("round_robin", 2.0), a_row("session", 1.0)]))

    assert [("Alternative 1", 0.0), ("Alternative 2", -0.5)] == [(row["name"], row["change"]) for row in found]


def test_savings_are_the_sum_of_all_teams() -> None:
    one = {"saved_tokens": 100, "saved_s": 2.0, "saved_usd": 0.5}
    other = {"saved_tokens": -20, "saved_s": -0.5, "saved_usd": None}

    assert {"tokens": 80, "seconds": 1.5, "usd": 0.5} == saved(a_result(savings=[one, other]))
    assert [None, None] == [saved(None), saved(a_result(savings=[other]))]
