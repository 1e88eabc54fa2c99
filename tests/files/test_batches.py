"""Batches whose contents are in a real object store: gateways that have no folder in common share them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from simulator.server import serving
from tests.e2e.gateway_process import GatewayProcess, gateway_process
from tests.e2e.stack import HELD_KEY, quick
from tests.e2e.test_batches_killed import LINES, begun, client, finished, outputs
from tests.files.server import ObjectStore
from tests.storage import RedisServer

pytestmark = pytest.mark.redis


class Gateways:
    """Gateways that have only Redis and the object store in common."""

    def __init__(self, folder: Path, wanted: dict[str, Any], store: ObjectStore, exits: AsyncExitStack) -> None:
        self._folder = folder
        self._wanted = wanted
        self._store = store
        self._exits = exits
        self._count = 0

    async def start(self) -> GatewayProcess:
        self._count += 1
        name = f"gateway-{self._count}"
        scratch = self._folder / name
        scratch.mkdir()
        bucket = {**self._wanted["files"]["s3"], "scratch_folder": str(scratch)}
        return await self._exits.enter_async_context(
            gateway_process(
                self._folder,
                {**self._wanted, "files": {**self._wanted["files"], "s3": bucket}},
                name=name,
                variables=self._store.variables,
                initializes=self._count == 1,
            )
        )

    def left_on_disks(self) -> list[Path]:
        return [path for folder in self._folder.glob("gateway-?/") for path in folder.iterdir()]


@asynccontextmanager
async def gateways(
    folder: Path, redis: RedisServer, store: ObjectStore, prefix: str, **files: Any
) -> AsyncIterator[Gateways]:
    async with AsyncExitStack() as exits:
        worker = await exits.enter_async_context(serving(quick(speed=1)))
        wanted = {
            "server": {"port": 0},
            "models": [{"name": "tiny", "workers": [{"url": worker}]}],
            "teams": [{"name": "blue", "keys": [{"id": "ci", "secret": HELD_KEY}]}],
            "store": {"url": redis.url},
            "files": {"s3": store.settings(prefix), **files},
            "batches": {"lease_s": 2},
        }
        yield Gateways(folder, wanted, store, exits)


async def test_other_gateways_continue_the_batch_of_gateways_that_are_killed(
    tmp_path: Path, redis_server: RedisServer, object_store: ObjectStore, prefix: str
) -> None:
    """Every line is in the output once, which any gateway serves. Nothing else is left."""
    async with gateways(tmp_path, redis_server, object_store, prefix) as started:
        running = [await started.start() for _ in range(3)]
        async with client(running[2]) as last:
            batch_id = await begun(last)
            await running.pop(0).kill()
            await finished(last, batch_id, 60)
            running.append(await started.start())
            await running.pop(0).kill()
            await finished(last, batch_id, 120)
        await running.pop(0).kill()  # the gateway that received the file
        running.append(await started.start())
        for gateway in running:
            async with client(gateway) as api:
                assert [str(n) for n in range(LINES)] == await outputs(api, batch_id)
        async with client(running[0]) as api:
            batch = await api.batches.retrieve(batch_id)
        names = object_store.names(prefix)
        left = started.left_on_disks()

    assert sorted([batch.input_file_id, str(batch.output_file_id)]) == names
    assert [] == left


async def test_a_batch_goes_on_after_the_object_store_was_down(
    tmp_path: Path, redis_server: RedisServer, object_store: ObjectStore, prefix: str
) -> None:
    """Meanwhile, uploads and downloads get the status 503."""
    async with gateways(tmp_path, redis_server, object_store, prefix) as started:
        gateway = await started.start()
        async with client(gateway) as api:
            batch_id = await begun(api)
            await asyncio.to_thread(object_store.kill)
            with pytest.raises(openai.InternalServerError) as refused:
                await api.with_options(max_retries=0).files.create(file=("a.jsonl", b"{}\n"), purpose="batch")
            object_store.begin()
            await asyncio.to_thread(object_store.wait)

            assert [str(n) for n in range(LINES)] == await outputs(api, batch_id)
    assert (503, "files_unavailable") == (refused.value.status_code, refused.value.code)


async def test_a_large_file_passes_through_and_is_gone_when_it_is_deleted(
    tmp_path: Path, redis_server: RedisServer, object_store: ObjectStore, prefix: str
) -> None:
    content = b"".join(json.dumps({"number": n, "text": "x" * 1000}).encode() + b"\n" for n in range(20_000))
    async with gateways(tmp_path, redis_server, object_store, prefix) as started:
        one, other = await started.start(), await started.start()
        async with client(one) as api:
            file = await api.files.create(file=("large.jsonl", content), purpose="batch")
        async with client(other) as api:
            found = (await api.files.content(file.id)).content
            part = await api.files.with_raw_response.content(file.id, extra_headers={"range": "bytes=20000000-"})
            kept = object_store.names(prefix)
            await api.files.delete(file.id)

    assert content == found
    assert content[20_000_000:] == part.content
    assert ([file.id], []) == (kept, object_store.names(prefix))
