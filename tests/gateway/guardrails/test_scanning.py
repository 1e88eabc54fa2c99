import asyncio

from gateway.guardrails import scanning
from gateway.guardrails.filter import BLOCK, LOG, PASS, Question, Text, Verdict
from gateway.guardrails.scanning import PIECE_CHARS
from tests.gateway.guardrails.examples import CARD, MAIL, a_filter, a_question


async def test_each_text_comes_back_in_its_place() -> None:
    assert Verdict("redact", ("a [EMAIL]", "b", "[CARD]")) == await a_filter().verdict(
        a_question(f"a {MAIL}", "b", CARD)
    )


async def test_what_is_found_is_done_with_as_the_action_says() -> None:
    assert PASS == await a_filter(action="block").verdict(a_question("nothing"))
    assert BLOCK == await a_filter(action="block").verdict(a_question("nothing", MAIL))
    assert LOG == await a_filter(action="log").verdict(a_question(MAIL))


async def test_a_long_text_lets_others_have_their_turn() -> None:
    """And what lies across its pieces is found."""
    text = "x" * (PIECE_CHARS - 10) + " " + CARD + " " + "y" * 3 * PIECE_CHARS
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.ensure_future(others())
    verdict = await a_filter().verdict(a_question(text))
    beside.cancel()

    assert (text.replace(CARD, "[CARD]"),) == verdict.texts
    assert turns >= 3


async def test_what_was_clean_is_not_looked_at_again() -> None:
    """And what was not is found again."""
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
    question = Question("request", (Text('{"n":4111111111111111}', is_json=True),), None, "tiny")

    assert ('{"n":"[CARD]"}',) == (await a_filter().verdict(question)).texts


def test_nothing_shows_a_text() -> None:
    """Neither a question, nor a verdict: both may stand in a traceback."""
    assert MAIL not in repr(a_question(MAIL))
    assert MAIL not in repr(Verdict("redact", (MAIL,)))
