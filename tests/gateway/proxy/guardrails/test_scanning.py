import asyncio
import itertools
import threading

import pytest

from gateway.protocol.errors import GuardrailUnavailable, TooMuchToScan
from gateway.proxy.guardrails import scanning
from gateway.proxy.guardrails.filter import BLOCK, LOG, PASS, FilterRequest, Text, Verdict
from gateway.proxy.guardrails.scanning import INLINE_CHARS, PIECE_CHARS, ScanFilter, ScanThread
from tests.gateway.proxy.guardrails.examples import CARD, MAIL, a_filter, a_question, a_scan


async def test_each_text_comes_back_in_its_place() -> None:
    assert Verdict("redact", ("a [EMAIL]", "b", "[CARD]")) == await a_filter().verdict(
        a_question(f"a {MAIL}", "b", CARD)
    )


async def test_what_is_found_is_done_with_as_the_action_says() -> None:
    assert PASS == await a_filter(action="block").verdict(a_question("nothing"))
    assert BLOCK == await a_filter(action="block").verdict(a_question("nothing", MAIL))
    assert LOG == await a_filter(action="log").verdict(a_question(MAIL))


async def test_a_long_text_lets_others_have_their_turn() -> None:
    """A match across its pieces is found."""
    text = "x" * (PIECE_CHARS - 10) + " " + CARD + " " + "y" * (INLINE_CHARS - PIECE_CHARS - 20)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    verdict = await a_filter().verdict(a_question(text))
    beside.cancel()

    assert (text.replace(CARD, "[CARD]"),) == verdict.texts
    assert turns >= 1


async def test_what_was_clean_is_not_looked_at_again() -> None:
    """A text with a match is checked again."""
    looks = a_filter()
    clean, dirty = "nothing at all " * 30, f"mail {MAIL} " * 30

    assert [PASS, PASS] == [await looks.verdict(a_question(clean)) for _ in range(2)]
    assert {hash(clean)} == set(looks._clean)
    first, second = [await looks.verdict(a_question(clean, dirty)) for _ in range(2)]
    assert first == second
    assert (clean, "mail [EMAIL] " * 30) == first.texts


async def test_what_is_remembered_is_bounded() -> None:
    looks = a_filter()
    looks._clean = dict.fromkeys(range(scanning.MOST_REMEMBERED))
    await looks.verdict(a_question("clean " * 100))

    assert scanning.MOST_REMEMBERED == len(looks._clean)
    assert 0 not in looks._clean


async def test_arguments_of_calls_stay_json() -> None:
    question = FilterRequest("request", (Text('{"n":4111111111111111}', is_json=True),), None, "tiny")

    assert ('{"n":"[CARD]"}',) == (await a_filter().verdict(question)).texts


def test_nothing_shows_a_text() -> None:
    """Neither a question, nor a verdict: both may stand in a traceback."""
    assert MAIL not in repr(a_question(MAIL))
    assert MAIL not in repr(Verdict("redact", (MAIL,)))


async def test_what_takes_too_long_is_refused() -> None:
    """Processor time counts, so that a busy machine refuses nothing; an answer is not the caller's fault."""
    ticks = itertools.count()
    looks = ScanFilter("pii", a_scan(), "redact", timeout_s=20.0, processor_time=lambda: float(next(ticks)))
    long = "nothing " * 4096
    with pytest.raises(TooMuchToScan, match="'pii' could not check 65536 characters within 20 s") as refusal:
        await looks.verdict(a_question(long, long))
    with pytest.raises(GuardrailUnavailable) as failure:
        await looks.verdict(a_question(long, long, direction="response"))

    assert (400, 503) == (refusal.value.status, failure.value.status)
    assert PASS == await looks.verdict(a_question("short"))


async def test_long_texts_are_looked_at_beside_the_event_loop() -> None:
    """A bounded number of long texts waits for one thread; short ones do not wait."""
    thread = ScanThread(most_waiting=2)
    looks = ScanFilter("pii", a_scan(), "redact", thread=thread)
    go_on = threading.Event()
    busy = [asyncio.ensure_future(thread.run(lambda: go_on.wait(20))) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(GuardrailUnavailable, match="Too many long texts"):
        await looks.verdict(a_question(f"{MAIL} " * 1000))
    assert ("[EMAIL]",) == (await looks.verdict(a_question(MAIL))).texts
    go_on.set()
    await asyncio.gather(*busy)

    assert ("[EMAIL] " * 1000,) == (await looks.verdict(a_question(f"{MAIL} " * 1000))).texts


async def test_a_scan_ends_with_its_request() -> None:
    """Its caller has gone away."""
    ticks = itertools.count()
    began, thread = threading.Event(), ScanThread()

    def processor_time() -> float:
        began.set()
        return float(next(ticks)) * 1e-9

    looks = ScanFilter("pii", a_scan(), "redact", timeout_s=1e9, thread=thread, processor_time=processor_time)
    looking = asyncio.ensure_future(looks.verdict(a_question("4111 " * 400_000)))
    await asyncio.to_thread(began.wait, 20)
    looking.cancel()
    await asyncio.wait([looking])
    await thread.run(lambda: None)

    assert next(ticks) < 2 * 400_000 * 5 / PIECE_CHARS
