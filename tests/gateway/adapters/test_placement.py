"""The adapter of one model, as the attempts of a request see it."""

import pytest

from cache_index import WorkerId
from gateway.adapters.adapter import Adapter
from gateway.adapters.placement import Placement
from gateway.errors import AdapterMissing
from tests.gateway.adapters.engines import POET, LoadingWorker, a_shelf, a_subject, know
from tests.gateway.adapters.test_shelf import running

UNKNOWN = b'{"error":{"message":"The model `tiny:poet` does not exist."}}'


async def test_a_request_is_sent_where_it_is_or_nobody_knows() -> None:
    """Where it is not, it has to be brought first."""
    a, b, c = LoadingWorker("a"), LoadingWorker("b"), LoadingWorker("c")
    subject = a_subject(POET, a, b, c)
    shelf = a_shelf(subject)
    know(shelf, {a: ["poet"], b: []})
    placement = Placement(shelf, subject, "tiny:poet")
    before = [placement.is_there(each) for each in (a, b, c)]
    async with running(shelf):
        await placement.bring(b)

    assert [True, False, True] == before
    assert placement.is_there(b)
    assert ["poet"] == b.adapters
    assert 0.0 == placement.price_s(WorkerId("b"))


def test_where_it_cannot_be_brought_the_engine_is_asked() -> None:
    """Its list may be wrong, and its 404 is the truth."""
    a = LoadingWorker("a")
    subject = a_subject(Adapter("poet", "tiny"), a)
    shelf = a_shelf(subject)
    know(shelf, {a: []})

    assert Placement(shelf, subject, "poet").is_there(a)


async def test_a_refusal_is_known_from_then_on() -> None:
    """By either of its names. Another refusal changes nothing."""
    a = LoadingWorker("a", "poet")
    subject = a_subject(POET, a)
    shelf = a_shelf(subject)
    know(shelf, {a: ["poet"]})
    placement = Placement(shelf, subject, "tiny:poet")
    other = placement.is_refused(a, 404, b'{"error":{"message":"The response is not found."}}')
    still = placement.is_there(a)
    refused = placement.is_refused(a, 404, UNKNOWN)

    assert (False, True, True, False) == (other, still, refused, placement.is_there(a))
    assert 2.0 == placement.price_s(WorkerId("a"))


async def test_what_cannot_be_brought_is_missing() -> None:
    a = LoadingWorker("a", fails=500)
    subject = a_subject(POET, a)
    shelf = a_shelf(subject)
    know(shelf, {a: []})
    async with running(shelf):
        with pytest.raises(AdapterMissing):
            await Placement(shelf, subject, "poet").bring(a)
