"""Keys, limits and the ledger behind Envoy: usage in the ledger equals what clients saw."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio

from tests.e2e.governed import GATEWAY
from tests.picker.configuration import BodyMode
from tests.picker.rig import Rig, rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODES: tuple[BodyMode, ...] = ("FULL_DUPLEX_STREAMED", "BUFFERED")
HI: Any = [{"role": "user", "content": "hi there"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MODES)
async def there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("rig")
    store = {"url": f"sqlite:///{folder}/usage.db"}
    async with rig(folder, 2, body_mode=request.param, store=store, **GATEWAY) as running:
        yield running


async def test_the_ledger_has_the_usage_that_clients_saw(there: Rig) -> None:
    """The ledger counts whole answers, streams with a usage event, and streams without one."""
    key = await there.picker.admin.key()
    seen = []
    async with there.openai(key.secret) as client:
        for tokens in (3, 5):
            whole = await client.chat.completions.create(model="tiny", messages=HI, max_tokens=tokens)
            assert whole.usage is not None
            seen.append((whole.usage.prompt_tokens, whole.usage.completion_tokens))
            text = await client.completions.create(model="tiny", prompt="once", max_tokens=tokens)
            assert text.usage is not None
            seen.append((text.usage.prompt_tokens, text.usage.completion_tokens))
            asked: dict[str, Any] = {"model": "tiny", "messages": HI, "max_tokens": tokens, "stream": True}
            stream = await client.chat.completions.create(**asked, stream_options={"include_usage": True})
            usages = [chunk.usage async for chunk in stream if chunk.usage is not None]
            seen.append((usages[-1].prompt_tokens, usages[-1].completion_tokens))
            bare = await client.chat.completions.create(**asked)
            chunks = [chunk async for chunk in bare]
            assert all(chunk.usage is None for chunk in chunks)
            seen.append(seen[-1])
    records = await there.picker.admin.records(key.team, len(seen))

    assert sorted(seen) == sorted((each["prompt_tokens"], each["completion_tokens"]) for each in records)


async def test_an_unknown_key_is_refused_by_envoy(there: Rig) -> None:
    total = sum((await there.served()).values())
    async with there.openai("sk-unknown") as client:
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(model="tiny", messages=HI)
    assert total == sum((await there.served()).values())


async def test_a_limit_is_kept(there: Rig) -> None:
    """The SDK sees the error of a limit, and when to ask again."""
    key = await there.picker.admin.limited(requests_per_minute=1)
    async with there.openai(key.secret) as client:
        await client.chat.completions.create(model="tiny", messages=HI, max_tokens=2)
        with pytest.raises(openai.RateLimitError) as refused:
            await client.chat.completions.create(model="tiny", messages=HI, max_tokens=2)

    assert float(refused.value.response.headers["retry-after"]) > 0
    assert 1 == len(await there.picker.admin.records(key.team, 1))


async def test_a_caller_who_hangs_up_pays_for_what_was_generated(there: Rig) -> None:
    key = await there.picker.admin.key()
    async with there.openai(key.secret) as client:
        stream = await client.chat.completions.create(model="tiny", messages=HI, max_tokens=2000, stream=True)
        await anext(aiter(stream))
        await stream.close()
    (record,) = await there.picker.admin.records(key.team, 1)

    assert 0 < record["completion_tokens"] <= 2000
