from pathlib import Path

import pytest

from benchmarks.peers.entrants import CACHE_AWARE, ENTRANTS, OURS, OURS_WITHOUT_KEYS, SGLANG, Wheel, chosen
from benchmarks.peers.environment import PEERS


def test_every_router_has_an_environment() -> None:
    assert {"sglang", "smg", "vllm-router", "litellm"} == {each.peer for each in ENTRANTS.values() if each.is_router}
    assert all(each.peer in PEERS for each in ENTRANTS.values() if each.peer)
    assert not any(each.is_router for each in ENTRANTS.values() if each.is_ours)


def test_a_word_chooses_all_that_have_it_in_their_names() -> None:
    """In the order of the table, each once."""
    assert [OURS_WITHOUT_KEYS, SGLANG] == [each.name for each in chosen(["sglang", "without keys", "sgl"])]


def test_a_word_that_fits_no_one_is_an_error_that_lists_all() -> None:
    with pytest.raises(ValueError, match=r"no entrant is called haproxy; there are nginx, warmgate"):
        chosen(["nginx", "haproxy"])


def test_the_usual_ones_are_each_project_once_and_ours_with_keys_and_without() -> None:
    peers = [ENTRANTS[name].peer for name in CACHE_AWARE if ENTRANTS[name].peer]

    assert sorted(set(map(str, peers))) == sorted(map(str, peers))
    assert {OURS, OURS_WITHOUT_KEYS} == {name for name in CACHE_AWARE if ENTRANTS[name].is_ours}


def test_a_wheel_that_is_unpacked_is_not_built(tmp_path: Path) -> None:
    """To try a scenario out without a compiler."""
    assert tmp_path / "there" == Wheel(tmp_path / "there").shipped.directory
