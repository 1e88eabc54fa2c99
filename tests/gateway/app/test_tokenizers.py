"""Facts about who is asked for the exact tokens of prompts, by the settings."""

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from cache_index.tokens import pack
from gateway.app.mapping.models import tokenizer_spec
from gateway.app.tokenizers import ModelTokens, Tokenizers
from gateway.models.tokenizing.engine_question import EngineAddress
from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.token_source import RawPrompt
from gateway.settings import TokenizerSettings
from tests.fakes.engine import FakeEngine, Hangs, Page, fake_engine
from tests.gateway.examples import Clock
from tests.gateway.models.tokenizing.examples import tiny_tokenizer
from tests.gateway.workers.kv_events.examples import until

GIVEN = RawPrompt("/v1/completions", b'{"model":"tiny","prompt":[7,8,9]}', "tiny")
TEXT = RawPrompt("/v1/completions", b'{"model":"tiny","prompt":"Once upon a time"}', "tiny")
BY_ENGINE = Exact(pack([1, 2]), 2)
TOKENIZES = Page('{"tokens":[1,2],"count":2,"max_model_len":100}')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's own tokenizer."""
    path = tmp_path_factory.mktemp("tokenizer")
    tiny_tokenizer().save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text("{}")
    return path


@pytest.fixture
async def tokenizers() -> AsyncIterator[Tokenizers]:
    async with httpx.AsyncClient(timeout=60, verify=False) as client:
        with ThreadPoolExecutor(1) as executor:
            yield Tokenizers(executor=executor, client=client, clock=Clock())


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    """One that can be asked for the tokens of a text, and for nothing else."""
    async with fake_engine({"/tokenize": TOKENIZES}) as engine:
        yield engine


def source_of(tokenizers: Tokenizers, engine: FakeEngine, **settings: Any) -> ModelTokens:
    addresses = [EngineAddress(engine.url, {"authorization": "Bearer k-1"})]
    return tokenizers.of("tiny", tokenizer_spec(TokenizerSettings(**settings)), lambda: addresses)


async def loaded(source: ModelTokens) -> ModelTokens:
    """When what is read is there, or cannot be."""
    local = source.local
    assert local is not None
    await until(lambda: not local.is_loading)
    return source


@pytest.mark.parametrize("source", ["auto", "local", "engine", "none"])
async def test_ids_that_a_request_brings_are_always_taken(
    tokenizers: Tokenizers, engine: FakeEngine, folder: Path, source: str
) -> None:
    """No one is asked."""
    token_source = source_of(tokenizers, engine, source=source, path=str(folder)).token_source

    assert Exact(pack([7, 8, 9]), 3) == await token_source.ids(GIVEN)
    assert [] == engine.asked


async def test_with_none_nothing_else_is_known(tokenizers: Tokenizers, engine: FakeEngine, folder: Path) -> None:
    """Though there would be a tokenizer, and an engine."""
    source = source_of(tokenizers, engine, source="none", path=str(folder))

    assert (NotExact("unavailable"), None, []) == (await source.token_source.ids(TEXT), source.local, engine.asked)


@pytest.mark.parametrize("name", ["auto", "local"])
async def test_tokens_are_made_here_where_there_is_a_tokenizer(
    tokenizers: Tokenizers, engine: FakeEngine, folder: Path, name: Literal["auto", "local"]
) -> None:
    source = await loaded(source_of(tokenizers, engine, source=name, path=str(folder), budget_s=10))
    assert source.local is not None
    assert source.local.tokenizer is not None
    reported = await source.token_source.ids(TEXT)

    assert source.local.tokenizer.tokens(TEXT) == reported
    assert [] == engine.asked


@pytest.mark.parametrize(("name", "reported"), [("auto", BY_ENGINE), ("local", NotExact("unavailable"))])
async def test_without_a_tokenizer_engines_are_asked_if_they_may(
    tokenizers: Tokenizers, engine: FakeEngine, tmp_path: Path, name: str, reported: Exact | NotExact
) -> None:
    """The folder is empty: that is in the log, and changes nothing else."""
    source = await loaded(source_of(tokenizers, engine, source=name, path=str(tmp_path), budget_s=10))

    assert reported == await source.token_source.ids(TEXT)


async def test_engines_are_asked_as_their_addresses_say(
    tokenizers: Tokenizers, engine: FakeEngine, folder: Path
) -> None:
    """First for what they would render, then for the tokens of the text, with the worker's key."""
    source = source_of(tokenizers, engine, source="engine", path=str(folder), budget_s=10)

    assert (BY_ENGINE, None) == (await source.token_source.ids(TEXT), source.local)
    assert ["/v1/completions/render", "/tokenize"] == engine.asked
    assert "\r\nauthorization: bearer k-1\r\n" in engine.heads[1]


async def test_a_request_waits_no_longer_than_its_budget(tokenizers: Tokenizers, engine: FakeEngine) -> None:
    """An engine that never answers is not asked anything more by it."""
    engine.answers["/v1/completions/render"] = Hangs()
    source = source_of(tokenizers, engine, source="engine", budget_s=0.05)

    assert NotExact("slow") == await source.token_source.ids(TEXT)
    assert ["/v1/completions/render"] == engine.asked


async def test_a_comparison_has_more_time(tokenizers: Tokenizers, engine: FakeEngine) -> None:
    """No request waits for it, so an engine may be busy."""
    engine.answers["/tokenize"] = Page(TOKENIZES.body, after_s=0.2)
    token_source = tokenizers.engine(lambda: [EngineAddress(engine.url)])

    assert BY_ENGINE == await token_source.ids(TEXT)


async def test_engines_are_those_of_the_moment(tokenizers: Tokenizers, engine: FakeEngine) -> None:
    """Workers come and go; without any no one can tell."""
    addresses: list[EngineAddress] = []
    token_source = tokenizers.of(
        "tiny", tokenizer_spec(TokenizerSettings(source="engine", budget_s=10)), lambda: addresses
    ).token_source
    assert NotExact("unavailable") == await token_source.ids(TEXT)

    addresses.append(EngineAddress(engine.url))
    assert BY_ENGINE == await token_source.ids(TEXT)
