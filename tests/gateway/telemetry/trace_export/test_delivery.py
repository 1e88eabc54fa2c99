"""Traces on their way to one destination."""

import logging
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from gateway.telemetry.trace_export.delivery import BATCH, CompletedTrace, Delivery
from tests.gateway.examples import an_exchange
from tests.gateway.telemetry.trace_export.examples import a_trace

PATIENCE_S = 30.0


class Ids:
    """Encodes a trace as the id of its request; one that is called ``odd`` cannot be encoded."""

    def spans(self, ended: CompletedTrace) -> list[Any]:
        if ended.exchange.request_id == b"odd":
            raise ValueError("odd")
        return [ended.exchange.request_id]

    def message(self, spans: Iterable[Any]) -> bytes:
        return b" ".join(spans)


class Sent:
    """Takes messages, with *whys* it did not; the first one only once it is let go."""

    def __init__(self, *whys: str, held: bool = False) -> None:
        self.messages: list[bytes] = []
        self.whys = list(whys)
        self.is_asked = threading.Event()
        self.let_go = threading.Event()
        self.is_closed = threading.Event()
        if not held:
            self.let_go.set()

    def __call__(self, message: bytes, stop: threading.Event) -> str | None:
        self.is_asked.set()
        assert self.let_go.wait(PATIENCE_S)
        self.messages.append(message)
        return self.whys.pop(0) if self.whys else None

    def close(self) -> None:
        self.is_closed.set()


def an_ended(request_id: str) -> CompletedTrace:
    return CompletedTrace(an_exchange(request_id=request_id.encode()), a_trace(), 101.0)


def a_delivery(sent: Sent, **more: Any) -> Delivery:
    return Delivery("operator", Ids(), sent, **({"collect_s": 0.0} | more))


def test_what_is_offered_is_sent_in_its_order() -> None:
    """In one message, if it comes together; at the end what waits is sent at once, and the connection closed."""
    sent = Sent()
    delivery = a_delivery(sent, collect_s=PATIENCE_S)
    for name in "abc":
        delivery.offer(an_ended(name))
    delivery.close(PATIENCE_S)

    assert [b"a b c"] == sent.messages
    assert {"sent": 3} == delivery.counts
    assert sent.is_closed.is_set()


def test_a_message_is_no_longer_than_a_batch() -> None:
    sent = Sent()
    delivery = a_delivery(sent, collect_s=PATIENCE_S)
    for number in range(BATCH + 1):
        delivery.offer(an_ended(str(number)))
    delivery.close(PATIENCE_S)

    assert [BATCH, 1] == [len(message.split()) for message in sent.messages]


def test_who_offers_never_waits() -> None:
    """More than may wait are dropped, and so is what comes after the end."""
    sent = Sent(held=True)
    delivery = a_delivery(sent, most_waiting=2)
    delivery.offer(an_ended("a"))
    assert sent.is_asked.wait(PATIENCE_S)
    for name in "bcde":
        delivery.offer(an_ended(name))

    assert {"dropped": 2} == delivery.counts

    sent.let_go.set()
    delivery.close(PATIENCE_S)
    delivery.offer(an_ended("f"))

    assert [b"a", b"b c"] == sent.messages
    assert {"sent": 3, "dropped": 3} == delivery.counts


def test_what_does_not_arrive_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Until something has arrived again."""
    sent = Sent("HTTP 401", "HTTP 401", held=True)
    delivery = a_delivery(sent)
    with caplog.at_level(logging.WARNING):
        delivery.offer(an_ended("a"))
        assert sent.is_asked.wait(PATIENCE_S)
        delivery.offer(an_ended("b"))
        sent.let_go.set()
        delivery.close(PATIENCE_S)

    assert ["Traces could not be delivered to operator: HTTP 401"] == [record.message for record in caplog.records]
    assert {"failed": 2} == delivery.counts


def test_a_trace_that_cannot_be_encoded_does_not_lose_the_others(caplog: pytest.LogCaptureFixture) -> None:
    sent = Sent()
    delivery = a_delivery(sent, collect_s=PATIENCE_S)
    for name in ("a", "odd", "b"):
        delivery.offer(an_ended(name))
    delivery.close(PATIENCE_S)

    assert [b"a b"] == sent.messages
    assert {"sent": 2, "failed": 1} == delivery.counts
    assert ["The trace of request odd could not be encoded"] == [record.message for record in caplog.records]


def test_a_batch_without_encoded_traces_is_not_sent() -> None:
    sent = Sent()
    delivery = a_delivery(sent, collect_s=PATIENCE_S)
    delivery.offer(an_ended("odd"))
    delivery.close(PATIENCE_S)

    assert ([], {"failed": 1}) == (sent.messages, delivery.counts)


def test_without_a_trace_there_is_no_thread() -> None:
    before = threading.active_count()
    delivery = a_delivery(Sent())

    assert before == threading.active_count()

    delivery.close(PATIENCE_S)
