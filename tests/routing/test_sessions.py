"""Sessions that are recognized, and what a new one displaces."""

import numpy as np
import pytest

from routing.live_sessions import Session
from routing.request import BATCH, Request
from routing.sessions import FILTER_SLOTS, LAST_BLOCKS, MAX_LOOPED_BLOCKS, PromptEnds, Sessions
from tests.routing.examples import A, B, a_request

HEAD = "system"


def begun(sessions: Sessions, *requests: Request) -> list[bool]:
    return [sessions.begins(request) for request in requests]


class TestNamed:
    def test_the_first_of_a_name_begins_a_session(self) -> None:
        """Whatever it asks; names are of their own."""
        sessions = Sessions()

        assert [True, False, True, False] == begun(
            sessions, *(a_request("abc", session=name) for name in ("bob", "bob", "eve", "bob"))
        )

    def test_who_asks_again_is_remembered(self) -> None:
        """With room for two of three names, the least recently used one is dropped."""
        sessions = Sessions(max_sessions=2)
        begun(sessions, *(a_request(session=name) for name in ("bob", "eve", "bob", "ann")))

        assert [False, True] == begun(sessions, a_request(session="bob"), a_request(session="eve"))


class TestUnnamed:
    def test_a_longer_prompt_goes_on_from_a_shorter_one(self) -> None:
        """Turn after turn; also where the end of the one before was another, as an answer was to begin there."""
        assert [True, False, False, False] == begun(
            Sessions(), a_request("abcdef"), a_request("abcdefghi"), a_request("abcdefgxyz"), a_request("abcdefgxyz!")
        )

    def test_another_prompt_begins_a_session(self) -> None:
        """The prompts share a block that is not the end of one, or no block."""
        sessions = Sessions()
        begun(sessions, a_request("abcdef"))

        assert [True, True] == begun(sessions, a_request("abxyz"), a_request("uvwxyz"))

    def test_the_same_prompt_again_is_no_beginning(self) -> None:
        """Repeated prompts continue the session."""
        assert [True, False, False] == begun(Sessions(), *[a_request("abcdef")] * 3)

    def test_a_head_that_all_share_makes_no_one_a_continuation_for_long(self) -> None:
        """Somebody asked with the head alone: one takes it for its own, all after that begin."""
        sessions = Sessions()
        begun(sessions, a_request(HEAD))

        assert [False, True, True] == begun(sessions, *(a_request(HEAD + turn * 5) for turn in "abc"))

    @pytest.mark.parametrize("letters", ["", "a", "ab"])
    def test_what_is_too_short_always_begins(self, letters: str) -> None:
        """There is nothing of it that a continuation is sure to have."""
        assert [True, True] == begun(Sessions(), a_request(letters), a_request(letters + "cdefg"))

    def test_what_no_one_goes_on_from_is_forgotten(self) -> None:
        """With room for two of three prompts, the oldest is dropped."""
        sessions = Sessions(max_sessions=2)
        begun(sessions, a_request("aaaaaa"), a_request("bbbbbb"), a_request("cccccc"))

        assert [False, False, True] == begun(sessions, a_request("bbbbbb1"), a_request("cccccc1"), a_request("aaaaaa1"))


class TestWouldBegin:
    @pytest.mark.parametrize("session", ["bob", None])
    def test_a_question_about_a_request_changes_nothing(self, session: str | None) -> None:
        """It is asked twice before the request arrives, and once afterwards."""
        sessions, request = Sessions(), a_request("abcdef", session=session)
        before = [sessions.would_begin(request), sessions.would_begin(request)]

        assert [True, True] == before
        assert [True] == begun(sessions, request)
        assert not sessions.would_begin(request)


def conversations(sessions: Sessions, count: int, *, turns: int = 5) -> None:
    """Sessions on worker A: each request adds 16 tokens of prompt and 100 of answer."""
    for number in range(count):
        for turn in range(turns):
            request = a_request(f"{number:03}" + "x" * turn, session=f"s{number}")
            sessions.begins(request)
            sessions.sent(request, A, 16.0)
            sessions.answered(116.0)


class TestNewcomer:
    def test_a_session_displaces_what_live_sessions_hold(self) -> None:
        """Worker A has sessions and worker B has none. Sessions have many requests, so a small cache is displaced."""
        sessions = Sessions()
        conversations(sessions, 10)
        newcomer = sessions.newcomer(0)

        assert 0.0 == newcomer.displaced_tokens(B, 1_000.0)
        assert newcomer.displaced_tokens(A, 1_000.0) > 1_000.0

    def test_a_larger_cache_loses_a_smaller_part(self) -> None:
        """All requests of the session together add a tenth and a hundredth of the two caches."""
        sessions = Sessions()
        conversations(sessions, 10)
        newcomer = sessions.newcomer(0)

        small, large = (newcomer.displaced_tokens(A, capacity) for capacity in (100_000.0, 1_000_000.0))
        assert 10.0 == pytest.approx(small / large)

    def test_requests_without_a_conversation_displace_nothing(self) -> None:
        """Every session has one request, so no session is live and the new one will not grow."""
        sessions = Sessions()
        conversations(sessions, 100, turns=1)

        assert 0.0 == sessions.newcomer(0).displaced_tokens(A, 1_000.0)

    def test_a_session_without_a_name_is_found_by_its_prompt(self) -> None:
        """Its second request moves it from worker A to worker B."""
        sessions = Sessions()
        for letters, worker in (("abcdef", A), ("abcdefgh", B)):
            request = a_request(letters)
            sessions.begins(request)
            sessions.sent(request, worker, 16.0)
        newcomer = sessions.newcomer(0)

        assert 0.0 == newcomer.displaced_tokens(A, 100.0)
        assert newcomer.displaced_tokens(B, 100.0) > 0.0

    def test_a_prompt_that_is_too_short_is_no_session(self) -> None:
        """Two blocks could both differ in the next prompt."""
        sessions = Sessions()
        request = a_request("ab")
        sessions.begins(request)
        sessions.sent(request, A, 16.0)

        assert 0.0 == sessions.newcomer(0).displaced_tokens(A, 100.0)

    def test_a_worker_that_lost_its_cache_has_nothing_to_displace(self) -> None:
        sessions = Sessions()
        conversations(sessions, 10)
        sessions.forget_worker(A)

        assert 0.0 == sessions.newcomer(0).displaced_tokens(A, 1_000.0)

    def test_sessions_that_are_dropped_no_longer_count(self) -> None:
        """One session is remembered, so of ten sessions nine are dropped."""
        many, one = Sessions(), Sessions(max_sessions=1)
        for sessions in (many, one):
            conversations(sessions, 10)

        displaced = [sessions.newcomer(0).displaced_tokens(A, 1_000.0) for sessions in (many, one)]
        assert displaced[1] < displaced[0] / 5


@pytest.mark.parametrize("length", [0, MAX_LOOPED_BLOCKS])
class TestPromptEnds:
    """Prompts with *length* more blocks, so that short and long ones are searched."""

    def test_the_last_end_in_a_prompt_is_found(self, length: int) -> None:
        """Two blocks of the prompt are ends. A prompt without an end has none."""
        ends = PromptEnds()
        for block in (3, -5):
            ends.put(block, Session())

        assert -5 == ends.last_in(prompt(1, 3, 4, -5, 6, length=length))
        assert ends.last_in(prompt(1, 4, 6, length=length)) is None
        assert ends.last_in(b"") is None

    def test_a_block_with_the_counter_of_an_end_is_not_taken_for_it(self, length: int) -> None:
        """The two numbers differ by the number of counters. Removing one leaves the other."""
        ends, alike = PromptEnds(), 3 + FILTER_SLOTS
        ends.put(3, Session())
        assert ends.last_in(prompt(alike, length=length)) is None

        ends.put(alike, Session())
        ends.pop(3)
        assert alike == ends.last_in(prompt(3, alike, length=length))

    def test_removing_an_absent_block_changes_nothing(self, length: int) -> None:
        ends = PromptEnds()
        ends.put(3, Session())

        assert ends.pop(3 + FILTER_SLOTS) is None
        assert 3 == ends.last_in(prompt(3, length=length))


@pytest.mark.parametrize("blocks", [1, LAST_BLOCKS, MAX_LOOPED_BLOCKS, MAX_LOOPED_BLOCKS + 1, 300])
def test_an_end_is_found_at_any_place_of_a_prompt(blocks: int) -> None:
    """The first block is an end as well, so the search has to begin with the last blocks."""
    whole = prompt(length=blocks)
    numbers = np.frombuffer(whole, np.int64).tolist()
    for end in numbers:
        ends = PromptEnds()
        for block in {numbers[0], end}:
            ends.put(block, Session())

        assert end == ends.last_in(whole)


def prompt(*blocks: int, length: int) -> bytes:
    """Return the hashes of a prompt with *blocks* after *length* blocks that are no ends."""
    return np.array([*range(100, 100 + length), *blocks], np.int64).tobytes()


def test_requests_are_counted_by_how_their_session_is_recognized() -> None:
    sessions = Sessions()
    for each in (a_request("abcdef"), a_request("abcdefgh"), a_request("uvwxyz"), a_request("abc", session="s")):
        sessions.begins(each)

    assert {"named": 1, "prompt": 1, "none": 2} == sessions.recognized


def test_live_sessions_need_the_space_of_long_prompts() -> None:
    """Two sessions on a, whose tokens are in prompts of 82 tokens on average."""
    sessions = Sessions()
    for name, tokens in (("x", 10.0), ("y", 90.0)):
        request = a_request("abc", prompt_tokens=tokens, session=name)
        sessions.begins(request)
        sessions.sent(request, A, tokens)

    assert 164.0 == pytest.approx(sessions.needed_tokens(A, 2), rel=0.01)
    assert 0.0 == sessions.needed_tokens(B, 2)


def test_lines_of_batches_are_no_sessions() -> None:
    """Nothing continues their prompts, so they need no room in a cache later."""
    sessions = Sessions()
    line = a_request("abc", prompt_tokens=90.0, session="x").changed(priority=BATCH)
    begun = [sessions.begins(line) for _ in range(2)]
    sessions.sent(line, A, 90.0)

    assert ([True, True], 0.0) == (begun, sessions.needed_tokens(A, 2))
    assert 0 == sum(sessions.recognized.values())
