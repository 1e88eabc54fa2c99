"""First words of prefixes, which only teams with recorded prompts used."""

import pytest

from gateway.telemetry.caches.hot_prefixes import MAX_TEAMS
from gateway.telemetry.caches.prefix_words import PrefixWords
from tests.routing.examples import prompt

TEXT = b"\xffsystem\xfdYou answer questions about invoices. "
PREFIX = prompt("abcdef")


class Recorded:
    """Teams whose prompts are recorded."""

    def __init__(self, *teams: str | None) -> None:
        self.teams = set(teams)

    def __call__(self, team: str | None) -> bool:
        return team in self.teams


def words_of(recorded: Recorded, *, most: int = 100) -> PrefixWords:
    return PrefixWords(recorded, block_bytes=64, max_prefixes=most)


def test_the_words_of_a_recorded_prompt_are_shown() -> None:
    words = words_of(Recorded("blue"))
    words.learn(PREFIX, "blue", TEXT)

    assert "You answer questions about invoices." == words.find(PREFIX)
    assert "You answer questions about invoices." == words.find(prompt("abcdxy"))
    assert words.find(prompt("abcxyz")) is None


def test_callers_without_a_team_can_be_recorded() -> None:
    words = words_of(Recorded(None))
    words.learn(PREFIX, None, TEXT)

    assert "You answer questions about invoices." == words.find(PREFIX)


@pytest.mark.parametrize("first", ["blue", "red"])
def test_a_team_without_recording_hides_the_words(first: str) -> None:
    """In either order, and for good."""
    words = words_of(Recorded("blue"))
    for team in (first, "blue", "red", "blue"):
        words.learn(PREFIX, team, TEXT if team == "blue" else b"")

    assert words.find(PREFIX) is None


def test_words_disappear_if_recording_ends() -> None:
    recorded = Recorded("blue")
    words = words_of(recorded)
    words.learn(PREFIX, "blue", TEXT)
    recorded.teams.clear()

    assert words.find(PREFIX) is None
    recorded.teams.add("blue")
    assert words.find(PREFIX) is None


def test_words_appear_with_the_first_request_that_was_traced() -> None:
    words = words_of(Recorded("blue"))
    words.learn(PREFIX, "blue", b"")
    assert words.find(PREFIX) is None
    words.learn(PREFIX, "blue", TEXT)

    assert words.find(PREFIX) is not None


def test_words_of_more_teams_than_are_remembered_are_not_shown() -> None:
    teams = [f"team-{number}" for number in range(MAX_TEAMS + 1)]
    words = words_of(Recorded(*teams))
    for team in teams[:-1]:
        words.learn(PREFIX, team, TEXT)
    assert words.find(PREFIX) is not None
    words.learn(PREFIX, teams[-1], TEXT)

    assert words.find(PREFIX) is None


def test_the_beginnings_whose_last_use_is_longest_ago_are_forgotten() -> None:
    words = words_of(Recorded("blue"), most=2)
    for letters in ("aaaa", "bbbb", "aaaa", "cccc"):
        words.learn(prompt(letters), "blue", TEXT)

    assert [True, False, True] == [words.find(prompt(each * 4)) is not None for each in "abc"]
    assert 2 == len(words)


def test_only_text_that_all_callers_of_the_prefix_sent_is_shown() -> None:
    """4 blocks of 8 bytes are the same for all of them."""
    words = PrefixWords(Recorded("blue"), block_bytes=8)
    words.learn(PREFIX, "blue", b"\xffsystem\xfd" + b"0123456789" * 5)

    assert "012345678901234567890123" == words.find(PREFIX)


def test_short_prompts_have_no_words() -> None:
    words = words_of(Recorded("blue"))
    words.learn(prompt("abc"), "blue", TEXT)

    assert (0, None) == (len(words), words.find(prompt("abc")))


def test_all_words_are_forgotten() -> None:
    words = words_of(Recorded("blue"))
    words.learn(PREFIX, "blue", TEXT)
    words.clear()

    assert words.find(PREFIX) is None
