import pytest

from routing.queueing.sessions import Sessions
from routing.request import Request
from tests.routing.examples import a_request

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
