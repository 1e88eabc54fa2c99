import asyncio
import random
from collections import Counter

import pytest

from benchmarks.chat_bodies import bodies
from benchmarks.processes import ChildFailedError
from benchmarks.profile import (
    OTHER,
    PHASES,
    WARM_UP_REQUESTS,
    Count,
    Phase,
    Profile,
    ask,
    by_phase,
    count_of,
    fill,
    parse_arguments,
    share_within,
)
from benchmarks.report import Circumstances, Report
from benchmarks.stub_worker import Pace, serve, write_script

WRITTEN = """\
# callgrind format
events: Ir
fl=(1) proxy.c
fn=(1) serve
16 400
+3 20
cfn=(2) admit
calls=2 30
+1 300
cfn=(3) log
calls=1 50
* 70
fn=(2)
30 250
cfn=(3)
calls=1 50
-2 50
fn=(3)
50 120
"""
INNER = (Phase("serve", "serve"), Phase("admit", "admit|admit_helper", "serve"))


def test_what_a_function_does_itself_is_reported_from_what_it_calls() -> None:
    profile = Profile.read(WRITTEN.splitlines(keepends=True))

    assert {"serve": 420, "admit": 250, "log": 120} == profile.own
    assert {("serve", "admit"): 300, ("serve", "log"): 70, ("admit", "log"): 50} == profile.calls
    assert 790 == profile.total


def test_a_function_within_itself_is_the_same_function() -> None:
    """Callgrind names it by how deep it is: else a phase would be entered again by what it is in."""
    written = "fn=(1) f\n1 5\ncfn=(2) f'2\ncalls=1 1\n1 7\nfn=(2)\n1 7\n"

    assert {"f": 12} == Profile.read(written.splitlines()).own


def test_a_phase_is_what_was_called_into_it_without_the_phases_within() -> None:
    profile = Profile(
        own=Counter({"loop": 10, "serve": 40, "admit": 20, "admit_helper": 25, "log": 5}),
        calls=Counter(
            {("loop", "serve"): 90, ("serve", "admit"): 45, ("admit", "admit_helper"): 25, ("serve", "log"): 5}
        ),
    )

    assert {"serve": 45, "admit": 45, OTHER: 10} == by_phase(profile, INNER)


def test_what_goes_on_without_requests_is_not_one_of_theirs() -> None:
    busy = Profile(own=Counter({"loop": 500, "serve": 1000}), calls=Counter({("loop", "serve"): 1000}))
    idle = Profile(own=Counter({"loop": 300}))

    count = count_of("gateway", busy, idle, requests=10)

    assert 120.0 == count.instructions
    assert [("serve", 100.0), ("loop", 20.0)] == list(count.functions)
    assert 120.0 == count.phases[OTHER]


def test_a_loop_that_has_work_idles_less() -> None:
    busy = Profile(own=Counter({"loop": 650, "look": 100}))
    idle = Profile(own=Counter({"loop": 300, "look": 200}))

    assert 0.5 == share_within(busy, idle)
    assert 50.0 == count_of("gateway", busy, idle, requests=10).instructions


def test_where_nothing_idles_nothing_is_taken_off() -> None:
    assert 10.0 == count_of("gateway", Profile(own=Counter({"serve": 100})), Profile(), requests=10).instructions


def test_every_phase_has_a_name_of_its_own() -> None:
    names = [phase.name for phase in PHASES]

    assert len(set(names)) == len(names)
    assert OTHER not in names


def test_a_report_has_a_row_for_every_phase_and_a_column_for_every_gateway() -> None:
    report = Report("profile", "Profile", Circumstances.observe(seed=1, packages=()))
    phases = {"admit": 30_000.0, OTHER: 70_000.0}
    fill(report, [Count(name, 10, 100_000.0, phases, [("f", 20_000.0)]) for name in ("no keys", "keys")])

    assert ("phase", "no keys", "keys") == report.tables[0].columns
    assert [("admit", "30.0 (30%)", "30.0 (30%)"), (OTHER, "70.0 (70%)", "70.0 (70%)")] == report.tables[0].rows[:-1]
    assert ("**all**", "100.0 (100%)", "100.0 (100%)") == report.tables[0].rows[-1]
    assert [("`f`", "20.0 (20%)")] == report.tables[1].rows


async def test_every_request_is_answered_before_the_counting_ends() -> None:
    async with asyncio.timeout(60), await serve(write_script("tiny"), port=0, pace=Pace()) as server:
        host, port = server.sockets[0].getsockname()[:2]
        await ask(f"http://{host}:{port}", bodies("requests", random.Random(1)), 100)


async def test_an_answer_that_is_not_one_ends_it() -> None:
    """A profile of refusals would be fast, and wrong."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with asyncio.timeout(60), await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ExceptionGroup) as caught:
            await ask(f"http://127.0.0.1:{port}", ["{}"], 1)

    assert all(isinstance(error, ChildFailedError) for error in caught.value.exceptions)


def test_the_defaults_are_those_of_the_record() -> None:
    arguments = parse_arguments([])

    assert (600, 1, None) == (arguments.requests, arguments.seed, arguments.installed)
    assert 1000 == WARM_UP_REQUESTS
