"""Each way in which what an engine reports can be of no use, and how it is called."""

import itertools
import json
from collections.abc import Callable

import httpx
import pytest

from cache_index.confirmed import Confirmed
from cache_index.event import Stored
from cache_index.tokens import pack
from gateway.models.cache_check import CacheCheck, Examinee, Verdict
from gateway.models.exact_prompts import ExactPrompts
from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.token_source import RawPrompt
from routing.fleet import Fleet
from tests.routing.confirmed_examples import MODEL, TOKEN_HASHER, reporting_fleet, stored
from tests.routing.examples import A

BLOCK = 16


class ByWord:
    """A tokenizer: a word, a token; *more* tokens are added to every prompt."""

    def __init__(self, more: int = 0) -> None:
        self.more = more

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        ids = ids_of(json.loads(prompt.body)["prompt"]) + [1] * self.more
        return Exact(pack(ids), len(ids))


class Nothing:
    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        return NotExact("unavailable")


def ids_of(text: str) -> list[int]:
    return [int.from_bytes(word.encode()[:3], "big") for word in text.split()]


class Engine:
    """Computes prompts by words and reports their blocks, but for what a test makes it do otherwise."""

    def __init__(self, confirmed: Confirmed) -> None:
        self.confirmed = confirmed
        self.blocks_heard = 0
        self.model = MODEL
        self.block_size = BLOCK
        self.hears_salt = True
        self.is_heard = True
        self.published: Callable[[list[int]], list[int]] = lambda ids: ids
        self.cached: int | None = -1
        self.asked: list[dict[str, object]] = []
        self.nonces = itertools.count()
        self._hashes = itertools.count(1000)

    def answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if body["model"] != self.model:
            return httpx.Response(404, json={"error": {"message": "no such model"}})
        again = body in self.asked
        self.asked.append(body)
        ids = ids_of(body["prompt"])
        if self.is_heard and not again:
            self._tell(self.published(ids), body.get("cache_salt") if self.hears_salt else None)
        cached = (len(ids) - 1) // BLOCK * BLOCK if again else 0
        details = {"cached_tokens": cached if self.cached == -1 else self.cached}
        usage = {"prompt_tokens": len(ids), "prompt_tokens_details": details if self.cached is not None else None}
        return httpx.Response(200, json={"usage": usage})

    def _tell(self, ids: list[int], salt: str | None) -> None:
        size = self.block_size
        blocks = len(ids) // size
        hashes = [next(self._hashes) for _ in range(blocks)]
        self.confirmed.apply(A, Stored(hashes, None, ids[: blocks * size], size, salt=salt), model=MODEL)
        self.blocks_heard += blocks


@pytest.fixture
def fleet_and_engine() -> tuple[Fleet, Engine]:
    fleet, confirmed = reporting_fleet(A)
    confirmed.apply(A, stored("a"), model=MODEL)
    fleet.tick(0.0)
    return fleet, Engine(confirmed)


async def verdict(
    there: tuple[Fleet, Engine], token_source: ByWord | Nothing | None = None, *, metrics_size: int | None = BLOCK
) -> Verdict:
    fleet, engine = there
    prompts = ExactPrompts(
        token_source or ByWord(), fleet, hasher=TOKEN_HASHER, upstream_name=MODEL, base=MODEL, adapter=None
    )
    examinee = Examinee(A, "http://a", {}, MODEL, prompts, metrics_size, lambda: engine.blocks_heard)
    seconds = itertools.count()
    async with httpx.AsyncClient(transport=httpx.MockTransport(engine.answer)) as client:
        check = CacheCheck(
            client,
            engine.confirmed,
            clock=lambda: float(next(seconds)),
            nonce=lambda: f"n{next(engine.nonces)}",
            heard_s=2.0,
        )
        return await check.verdict(examinee)


async def test_an_engine_that_has_what_it_reports_agrees(fleet_and_engine: tuple[Fleet, Engine]) -> None:
    """A prompt without a salt and one with, each asked twice; both long enough for several blocks."""
    assert "agrees" == await verdict(fleet_and_engine)

    asked = fleet_and_engine[1].asked
    assert [None, None, "warmgate", "warmgate"] == [body.get("cache_salt") for body in asked]
    assert min(len(ids_of(str(body["prompt"]))) for body in asked) >= 4 * BLOCK
    assert {1} == {body["max_tokens"] for body in asked}


async def test_an_engine_that_does_not_report_cached_tokens_agrees(fleet_and_engine: tuple[Fleet, Engine]) -> None:
    """vLLM does so only if it is notified to; what it reported was found all the same."""
    fleet_and_engine[1].cached = None

    assert "agrees" == await verdict(fleet_and_engine)


async def test_another_name_of_the_model(fleet_and_engine: tuple[Fleet, Engine]) -> None:
    """Requests would be refused as well."""
    fleet_and_engine[1].model = "other"

    assert "model" == await verdict(fleet_and_engine)


async def test_another_tokenizer(fleet_and_engine: tuple[Fleet, Engine]) -> None:
    """It begins every prompt with one token more, say."""
    assert "tokens" == await verdict(fleet_and_engine, ByWord(more=1))


async def test_a_stream_that_reports_nothing(fleet_and_engine: tuple[Fleet, Engine]) -> None:
    """Another topic, or another port."""
    fleet_and_engine[1].is_heard = False

    assert "topic" == await verdict(fleet_and_engine)


async def test_blocks_of_another_size(fleet_and_engine: tuple[Fleet, Engine]) -> None:
    """Its metrics and its events disagree, and nothing is found in what it reported."""
    engine = fleet_and_engine[1]
    engine.published = lambda ids: ids[1:]

    assert "block_size" == await verdict(fleet_and_engine, metrics_size=32)


async def test_tokens_that_are_not_the_prompts(fleet_and_engine: tuple[Fleet, Engine]) -> None:
    """The number is the same, the tokens are not."""
    fleet_and_engine[1].published = lambda ids: [token + 1 for token in ids]

    assert "prefix" == await verdict(fleet_and_engine)
    assert "prefix" == await verdict(fleet_and_engine, metrics_size=None)


async def test_a_salt_that_is_not_reported(fleet_and_engine: tuple[Fleet, Engine]) -> None:
    """Without one all is found."""
    fleet_and_engine[1].hears_salt = False

    assert "salt" == await verdict(fleet_and_engine)


async def test_another_number_of_cached_tokens(fleet_and_engine: tuple[Fleet, Engine]) -> None:
    """It reported the blocks, and computes them again."""
    fleet_and_engine[1].cached = 0

    assert "cached_tokens" == await verdict(fleet_and_engine)


async def test_what_cannot_be_tried_is_unknown(fleet_and_engine: tuple[Fleet, Engine]) -> None:
    """No one reports tokens; or the engine fails, or talks nonsense."""
    assert "unknown" == await verdict(fleet_and_engine, Nothing())

    engine = fleet_and_engine[1]
    for answer in (httpx.Response(500), httpx.Response(200, text="hello"), httpx.Response(200, content=b"\xff")):
        engine.answer = lambda _, answer=answer: answer  # type: ignore[method-assign, misc]
        assert "unknown" == await verdict(fleet_and_engine)


async def test_the_same_prompt_for_every_worker(fleet_and_engine: tuple[Fleet, Engine]) -> None:
    """Each time the same; its first block has the hash that the engine reported. None while nothing is known of it."""
    fleet, engine = fleet_and_engine
    prompts = ExactPrompts(ByWord(), fleet, hasher=TOKEN_HASHER, upstream_name=MODEL, base=MODEL, adapter=None)
    examinee = Examinee(A, "http://a", {}, MODEL, prompts, BLOCK, lambda: engine.blocks_heard)
    seconds = itertools.count()
    async with httpx.AsyncClient(transport=httpx.MockTransport(engine.answer)) as client:
        check = CacheCheck(client, engine.confirmed, clock=lambda: float(next(seconds)), nonce=str, heard_s=2.0)
        hashes = [await check.block_hash(examinee) for _ in range(2)]
        engine.model = "other"
        refused = await check.block_hash(examinee)

    assert hashes[0] is not None
    assert hashes[0] == hashes[1]
    assert refused is None
    assert engine.asked[0] == engine.asked[1]
