"""A tokenizer that is being read, is there, or cannot be."""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from gateway.models.tokenizing.exactness import Exact, NotExact, UnusableFolder
from gateway.models.tokenizing.later import LoadedLater
from gateway.models.tokenizing.local import LocalTokenizer
from gateway.models.tokenizing.token_source import RawPrompt
from tests.gateway.models.tokenizing.examples import HELLO, ids, segments

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


async def test_until_it_is_there_nothing_can_be_reported() -> None:
    """Then it is asked itself; no one waits meanwhile."""
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
        (unusable, "model tiny: the gateway cannot tokenize prompts: no tokenizer.json in it", False),
        (broken, "model tiny: the gateway cannot tokenize prompts", True),
    ],
)
async def test_why_it_cannot_be_is_said_once(
    load: Callable[[], LocalTokenizer], text: str, has_trace: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What no one foresaw comes with its trace. Nothing can be reported then, for good."""
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
