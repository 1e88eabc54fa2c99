"""A tokenizer that is being read, is there, or cannot be."""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from gateway.tokenizing.exactness import Exact, NotExact
from gateway.tokenizing.later import LoadedLater
from gateway.tokenizing.loading import UnusableFolder
from gateway.tokenizing.local import LocalTokenizer
from gateway.tokenizing.rung import RawPrompt
from tests.gateway.tokenizing.examples import HELLO, ids, segments

PROMPT = RawPrompt("/v1/completions", b'{"model":"m","prompt":"hello!"}', "m")


class WhenTold(Executor):
    """Runs what it was given when a test says so, in the test's own thread."""

    def __init__(self) -> None:
        self.given: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.given.append((future, lambda: work(*args, **kwargs)))
        return future

    def run(self) -> None:
        for future, work in self.given:
            try:
                future.set_result(work())
            except Exception as fault:  # noqa: BLE001  # as every executor does
                future.set_exception(fault)


def loaded_later(executor: WhenTold, load: Callable[[], LocalTokenizer]) -> LoadedLater:
    return LoadedLater(load, executor=executor, model="tiny")


def a_tokenizer() -> LocalTokenizer:
    return LocalTokenizer(segments(), None, executor=WhenTold())


def unusable() -> LocalTokenizer:
    raise UnusableFolder("no tokenizer.json in it")


def broken() -> LocalTokenizer:
    raise RuntimeError("the vocabulary is odd")


async def test_until_it_is_there_nothing_can_be_told() -> None:
    """Then it is asked itself; nobody waits meanwhile."""
    executor, made = WhenTold(), a_tokenizer()
    later = loaded_later(executor, lambda: made)
    assert (NotExact("unavailable"), None, True) == (await later.ids(PROMPT), later.tokenizer, later.is_loading)

    executor.run()
    assert Exact(ids(HELLO, "!"), 2) == await later.ids(PROMPT)
    assert later.tokenizer is made
    assert not later.is_loading


@pytest.mark.parametrize(
    ("load", "text", "has_trace"),
    [
        (unusable, "model tiny: no exact tokens are made here: no tokenizer.json in it", False),
        (broken, "model tiny: no exact tokens are made here", True),
    ],
)
async def test_why_it_cannot_be_is_said_once(
    load: Callable[[], LocalTokenizer], text: str, has_trace: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What nobody foresaw comes with its trace. Nothing can be told then, for good."""
    executor = WhenTold()
    later = loaded_later(executor, load)
    executor.run()
    for _ in range(3):
        assert (NotExact("unavailable"), None, False) == (await later.ids(PROMPT), later.tokenizer, later.is_loading)

    (record,) = caplog.records
    assert (logging.ERROR, text, has_trace) == (record.levelno, record.getMessage(), bool(record.exc_info))


async def test_what_was_never_begun_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """The gateway stops before it was its turn."""
    executor = WhenTold()
    later = loaded_later(executor, a_tokenizer)
    ((future, _),) = executor.given
    future.cancel()

    assert (NotExact("unavailable"), False, []) == (await later.ids(PROMPT), later.is_loading, caplog.records)
