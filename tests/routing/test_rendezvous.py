"""Equal workers in an order that every process comes to."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from routing.candidate import Candidate
from routing.rendezvous import Rendezvous
from tests.routing.confirmed_examples import an_exact_request
from tests.routing.examples import a_candidate, a_request

FOUR = [a_candidate(name) for name in "abcd"]


def order(letters: str, tied: list[Candidate]) -> str:
    """Each order comes from a new object, as in another process."""
    ranked = Rendezvous().order(a_request(letters), tied)
    return "none" if ranked is None else "".join(candidate.worker for candidate in ranked)


def test_the_order_is_the_same_everywhere() -> None:
    """A literal: it must not depend on the process, or on how workers are listed."""
    assert order("x", FOUR) == order("x", FOUR[::-1])
    assert ["x: bcad", "y: bdca"] == [f"{letter}: {order(letter, FOUR)}" for letter in "xy"]


def test_prompts_spread_evenly_over_workers() -> None:
    """Each of four workers gets a quarter of 2,000 prompts, within a tenth of that."""
    first = Counter(order(chr(1000 + number), FOUR)[0] for number in range(2000))

    assert set("abcd") == set(first)
    assert all(450 < count < 550 for count in first.values()), first


@given(st.text("xyz", min_size=1, max_size=3), st.sampled_from("abcd"))
def test_a_worker_that_leaves_moves_only_its_own_prompts(letters: str, gone: str) -> None:
    """The order of the others is as it was."""
    left = [candidate for candidate in FOUR if candidate.worker != gone]

    assert order(letters, FOUR).replace(gone, "") == order(letters, left)


def test_prompts_that_part_where_no_one_holds_more_go_different_ways() -> None:
    """All hold the system prompt "s": the block behind it decides, and nothing behind that."""
    held = [candidate.changed(hit_blocks=1, hit_tokens=16.0) for candidate in FOUR]
    orders = {letter: order(f"s{letter}", held) for letter in "0123456789"}

    assert len(set(orders.values())) > 5
    assert orders == {letter: order(f"s{letter}and so on", held) for letter in "0123456789"}


def test_who_holds_more_comes_first() -> None:
    """Among equal costs, a prompt should not be computed a second time."""
    held = [a_candidate("a"), a_candidate("b", hit_tokens=16.0), a_candidate("c", hit_tokens=32.0), a_candidate("d")]

    assert "cb" == order("xyz", held)[:2]


def test_a_prompt_that_is_held_as_a_whole_goes_by_its_last_block() -> None:
    """No block follows the last one."""
    held = [candidate.changed(hit_blocks=3, hit_tokens=48.0) for candidate in FOUR]

    assert order("xyz", held) == order("xyz", [each.changed(hit_blocks=2) for each in held])


def test_nothing_is_known_of_a_prompt_without_a_block() -> None:
    """Chance has to decide."""
    assert "none" == order("", FOUR)


def test_where_engines_report_what_they_hold_the_exact_tokens_decide() -> None:
    """The blocks of exact tokens differ from those of text."""
    request = an_exact_request("stu")
    held = [c.changed(hit_blocks=1, hit_tokens=16.0, plain_tokens=16.0, source="reported") for c in FOUR]
    by_tokens = Rendezvous().order(request, held)
    behind = Rendezvous().order(request.changed(exact=(an_exact_request("su").exact[0],)), held)

    assert by_tokens is not None
    assert behind is not None
    assert [c.worker for c in by_tokens] != [c.worker for c in behind]
    assert by_tokens == Rendezvous().order(request.changed(prefix=a_request("zzz").prefix), held)


def test_any_name_of_a_worker_will_do() -> None:
    """Ids come from files, some of them odd."""
    assert 2 == len(order("x", [a_candidate("wörker \udcff"), a_candidate("b")]).replace("wörker \udcff", "a"))
