"""The adapter of one model, as the attempts of a request see it."""

import pytest

from cache_index import WorkerId
from gateway.models.adapters.adapter import Adapter
from gateway.models.adapters.placement import AdapterPlacement
from gateway.protocol.errors import AdapterMissing
from tests.gateway.models.adapters.engines import POET, LoadingWorker, a_shelf, a_subject, know
from tests.gateway.models.adapters.test_registry import running

UNKNOWN = b'{"error":{"message":"The model `tiny:poet` does not exist."}}'


async def test_a_request_is_sent_where_it_is_or_no_one_knows() -> None:
    """Where it is not, it has to be brought first."""
    a, b, c = LoadingWorker("a"), LoadingWorker("b"), LoadingWorker("c")
    subject = a_subject(POET, a, b, c)
    adapter_registry = a_shelf(subject)
    know(adapter_registry, {a: ["poet"], b: []})
    placement = AdapterPlacement(adapter_registry, subject, "tiny:poet")
    before = [placement.is_there(each) for each in (a, b, c)]
    async with running(adapter_registry):
        await placement.bring(b)

    assert [True, False, True] == before
    assert placement.is_there(b)
    assert ["poet"] == b.adapters
    assert 0.0 == placement.price_s(WorkerId("b"))


def test_where_it_cannot_be_brought_the_engine_is_asked() -> None:
    """Its list may be wrong, and its 404 is the truth."""
    a = LoadingWorker("a")
    subject = a_subject(Adapter("poet", "tiny"), a)
    adapter_registry = a_shelf(subject)
    know(adapter_registry, {a: []})

    assert AdapterPlacement(adapter_registry, subject, "poet").is_there(a)


async def test_a_refusal_is_known_from_then_on() -> None:
    """Either of its names counts. Another refusal changes nothing."""
    a = LoadingWorker("a", "poet")
    subject = a_subject(POET, a)
    adapter_registry = a_shelf(subject)
    know(adapter_registry, {a: ["poet"]})
    placement = AdapterPlacement(adapter_registry, subject, "tiny:poet")
    other = placement.is_refused(a, 404, b'{"error":{"message":"The response is not found."}}')
    still = placement.is_there(a)
    refused = placement.is_refused(a, 404, UNKNOWN)

    assert (False, True, True, False) == (other, still, refused, placement.is_there(a))
    assert 2.0 == placement.price_s(WorkerId("a"))


async def test_what_cannot_be_brought_is_missing() -> None:
    a = LoadingWorker("a", fails=500)
    subject = a_subject(POET, a)
    adapter_registry = a_shelf(subject)
    know(adapter_registry, {a: []})
    async with running(adapter_registry):
        with pytest.raises(AdapterMissing):
            await AdapterPlacement(adapter_registry, subject, "poet").bring(a)
