"""Which worker has which adapter: by its own lists, by what was done there, by what it refused."""

from hypothesis import given
from hypothesis import strategies as st

from routing.residents import Residents


def test_nothing_is_known_of_a_worker_that_never_told() -> None:
    residents = Residents()

    assert None is residents.holds("a", "poet")
    assert [] == residents.held("a")


def test_a_list_is_all_that_a_worker_has() -> None:
    residents = Residents()
    residents.listed("a", ["poet", "clerk"], 1.0)
    residents.listed("a", ["clerk"], 2.0)

    assert (False, True) == (residents.holds("a", "poet"), residents.holds("a", "clerk"))
    assert ["clerk"] == residents.held("a")
    assert None is residents.holds("b", "clerk")


def test_what_was_loaded_after_a_list_was_asked_for_is_there_though_it_is_not_on_it() -> None:
    residents = Residents()
    residents.loaded("a", "poet", 1.5)
    residents.listed("a", [], 1.0)
    still = residents.holds("a", "poet")
    residents.listed("a", [], 2.0)

    assert (True, False) == (still, residents.holds("a", "poet"))


def test_what_was_lost_after_a_list_was_asked_for_is_gone_though_it_is_on_it() -> None:
    residents = Residents()
    residents.lost("a", "poet", 1.5)
    residents.listed("a", ["poet"], 1.0)
    gone = residents.holds("a", "poet")
    residents.listed("a", ["poet"], 2.0)

    assert (False, True) == (gone, residents.holds("a", "poet"))


def test_a_refusal_is_known_of_a_worker_that_never_told() -> None:
    residents = Residents()
    residents.lost("a", "poet", 1.0)

    assert (False, None) == (residents.holds("a", "poet"), residents.holds("a", "clerk"))


def test_what_a_worker_is_at_it_has() -> None:
    """Though its list is older; of one that never told, that alone says nothing of others."""
    residents = Residents()
    residents.listed("a", [], 1.0)
    residents.seen("a", ["poet"], 2.0)
    residents.seen("b", ["poet"], 2.0)

    assert (True, None) == (residents.holds("a", "poet"), residents.holds("b", "poet"))


def test_what_was_lost_later_is_not_had() -> None:
    residents = Residents()
    residents.listed("a", [], 1.0)
    residents.lost("a", "poet", 3.0)
    residents.seen("a", ["poet"], 2.0)

    assert False is residents.holds("a", "poet")


def test_the_one_used_longest_ago_is_the_oldest() -> None:
    """What was never used comes before; only those among which is asked count."""
    residents = Residents()
    residents.listed("a", ["one", "two", "three"], 0.0)
    residents.used("a", "one", 5.0)
    residents.used("a", "two", 4.0)

    assert "three" == residents.oldest("a", {"one", "two", "three"})
    assert "two" == residents.oldest("a", {"one", "two"})
    assert None is residents.oldest("a", {"four"})
    assert None is residents.oldest("b", {"one"})


def test_a_worker_that_left_is_forgotten() -> None:
    residents = Residents()
    residents.loaded("a", "poet", 1.0)
    residents.lost("a", "clerk", 1.0)
    residents.loaded("b", "poet", 1.0)
    residents.forget({"b"})

    assert (None, None) == (residents.holds("a", "poet"), residents.holds("a", "clerk"))
    assert True is residents.holds("b", "poet")


def test_an_unloaded_adapter_begins_anew_when_it_comes_back() -> None:
    """Its last use was in another life."""
    residents = Residents()
    residents.listed("a", ["one", "two"], 0.0)
    residents.used("a", "one", 5.0)
    residents.used("a", "two", 4.0)
    residents.listed("a", ["two"], 6.0)
    residents.listed("a", ["one", "two"], 7.0)

    assert "one" == residents.oldest("a", {"one", "two"})


STEPS = st.lists(st.tuples(st.sampled_from(["loaded", "lost", "used", "list"]), st.sampled_from("xyz")), max_size=30)


@given(STEPS)
def test_it_knows_what_a_worker_has_if_it_is_told_of_everything(steps: list[tuple[str, str]]) -> None:
    """Against a set that is the worker's own account."""
    residents, truth = Residents(), set[str]()
    residents.listed("a", [], -1.0)
    for now, (step, name) in enumerate(steps):
        if step == "loaded":
            truth.add(name)
            residents.loaded("a", name, float(now))
        elif step == "lost":
            truth.discard(name)
            residents.lost("a", name, float(now))
        elif step == "used":
            residents.used("a", name, float(now))
        else:
            residents.listed("a", sorted(truth), float(now))

        assert truth == set(residents.held("a"))
        assert truth == {each for each in "xyz" if residents.holds("a", each)}
