"""The contract of `Contents` with a real object store, and signatures that it checks."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.batch.bucket import Bucket
from gateway.batch.bucket_client import BucketClient
from gateway.batch.contents import Contents
from gateway.protocol.errors import FilesUnavailable
from tests.contracts.contents_harness import ContentsContract
from tests.files.server import KEYS, ObjectStore

pytestmark = pytest.mark.e2e


class TestBucket(ContentsContract):
    @pytest.fixture
    async def contents(self, object_store: ObjectStore, prefix: str, tmp_path: Path) -> AsyncIterator[Contents]:
        bucket = Bucket(BucketClient(object_store.rules(prefix), KEYS), scratch=tmp_path)
        await bucket.open()
        yield bucket
        bucket.close()


@pytest.mark.parametrize(
    ("keys", "code"),
    [((KEYS[0], "another-secret"), "SignatureDoesNotMatch"), (("unknown", KEYS[1]), "InvalidAccessKeyId")],
)
async def test_a_wrong_signature_is_refused(
    object_store: ObjectStore, prefix: str, keys: tuple[str, str], code: str
) -> None:
    client = BucketClient(object_store.rules(prefix), keys)
    with pytest.raises(FilesUnavailable, match=f"cannot be used: {code}"):
        await client.put("x", b"x")
    client.close()


async def test_a_store_that_is_gone_is_an_error_until_it_is_back(object_store: ObjectStore, prefix: str) -> None:
    client = BucketClient(object_store.rules(prefix), KEYS)
    await client.put("x", b"before")
    await asyncio.to_thread(object_store.kill)
    with pytest.raises(FilesUnavailable, match="cannot be used: EndpointConnectionError"):
        await client.size("x")
    object_store.begin()
    await asyncio.to_thread(object_store.wait)

    assert 6 == await client.size("x")
    client.close()
