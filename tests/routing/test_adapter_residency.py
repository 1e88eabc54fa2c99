"""The adapters of workers, by their own lists, by events and by refusals."""

from hypothesis import given
from hypothesis import strategies as st

from routing.adapter_residency import AdapterResidency


def test_nothing_is_known_of_a_worker_that_never_reported() -> None:
    residency = AdapterResidency()

    assert None is residency.holds("a", "poet")
    assert [] == residency.held("a")


def test_a_list_is_all_that_a_worker_has() -> None:
    residency = AdapterResidency()
    residency.listed("a", ["poet", "clerk"], 1.0)
    residency.listed("a", ["clerk"], 2.0)

    assert (False, True) == (residency.holds("a", "poet"), residency.holds("a", "clerk"))
    assert ["clerk"] == residency.held("a")
    assert None is residency.holds("b", "clerk")


def test_what_was_loaded_after_a_list_was_asked_for_is_there_though_it_is_not_on_it() -> None:
    residency = AdapterResidency()
    residency.loaded("a", "poet", 1.5)
    residency.listed("a", [], 1.0)
    still = residency.holds("a", "poet")
    residency.listed("a", [], 2.0)

    assert (True, False) == (still, residency.holds("a", "poet"))


def test_what_was_lost_after_a_list_was_asked_for_is_gone_though_it_is_on_it() -> None:
    residency = AdapterResidency()
    residency.lost("a", "poet", 1.5)
    residency.listed("a", ["poet"], 1.0)
    gone = residency.holds("a", "poet")
    residency.listed("a", ["poet"], 2.0)

    assert (False, True) == (gone, residency.holds("a", "poet"))


def test_a_refusal_is_known_of_a_worker_that_never_reported() -> None:
    residency = AdapterResidency()
    residency.lost("a", "poet", 1.0)

    assert (False, None) == (residency.holds("a", "poet"), residency.holds("a", "clerk"))


def test_what_a_worker_is_at_it_has() -> None:
    """The refusal is later than its list. Without any list, it says nothing about other adapters."""
    residency = AdapterResidency()
    residency.listed("a", [], 1.0)
    residency.seen("a", ["poet"], 2.0)
    residency.seen("b", ["poet"], 2.0)

    assert (True, None) == (residency.holds("a", "poet"), residency.holds("b", "poet"))


def test_what_was_lost_later_is_not_had() -> None:
    residency = AdapterResidency()
    residency.listed("a", [], 1.0)
    residency.lost("a", "poet", 3.0)
    residency.seen("a", ["poet"], 2.0)

    assert False is residency.holds("a", "poet")


def test_the_one_used_longest_ago_is_the_oldest() -> None:
    """Adapters that were never used come first; only the given ones count."""
    residency = AdapterResidency()
    residency.listed("a", ["one", "two", "three"], 0.0)
    residency.used("a", "one", 5.0)
    residency.used("a", "two", 4.0)

    assert "three" == residency.oldest("a", {"one", "two", "three"})
    assert "two" == residency.oldest("a", {"one", "two"})
    assert None is residency.oldest("a", {"four"})
    assert None is residency.oldest("b", {"one"})


def test_a_worker_that_left_is_forgotten() -> None:
    residency = AdapterResidency()
    residency.loaded("a", "poet", 1.0)
    residency.lost("a", "clerk", 1.0)
    residency.loaded("b", "poet", 1.0)
    residency.forget({"b"})

    assert (None, None) == (residency.holds("a", "poet"), residency.holds("a", "clerk"))
    assert True is residency.holds("b", "poet")


def test_an_adapter_that_comes_back_has_no_last_use() -> None:
    """Its last use was before it was unloaded."""
    residency = AdapterResidency()
    residency.listed("a", ["one", "two"], 0.0)
    residency.used("a", "one", 5.0)
    residency.used("a", "two", 4.0)
    residency.listed("a", ["two"], 6.0)
    residency.listed("a", ["one", "two"], 7.0)

    assert "one" == residency.oldest("a", {"one", "two"})


STEPS = st.lists(st.tuples(st.sampled_from(["loaded", "lost", "used", "list"]), st.sampled_from("xyz")), max_size=30)


@given(STEPS)
def test_it_knows_what_a_worker_has_if_all_events_are_noted(steps: list[tuple[str, str]]) -> None:
    """Against a set that is the worker's own account."""
    residency, truth = AdapterResidency(), set[str]()
    residency.listed("a", [], -1.0)
    for now, (step, name) in enumerate(steps):
        if step == "loaded":
            truth.add(name)
            residency.loaded("a", name, float(now))
        elif step == "lost":
            truth.discard(name)
            residency.lost("a", name, float(now))
        elif step == "used":
            residency.used("a", name, float(now))
        else:
            residency.listed("a", sorted(truth), float(now))

        assert truth == set(residency.held("a"))
        assert truth == {each for each in "xyz" if residency.holds("a", each)}
