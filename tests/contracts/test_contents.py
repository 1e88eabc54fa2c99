"""Facts about what the package of batches expects of any `Contents`, for a folder and for a bucket."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.batch.bucket import Bucket
from gateway.batch.bucket_client import BucketClient
from gateway.batch.contents import Contents
from gateway.batch.folder import Folder
from tests.contracts.contents_harness import ContentsContract
from tests.fakes.s3 import fake_s3


class TestFolder(ContentsContract):
    @pytest.fixture
    async def contents(self, tmp_path: Path) -> AsyncIterator[Contents]:
        folder = Folder(tmp_path / "files")
        await folder.open()
        yield folder
        folder.close()


class TestBucket(ContentsContract):
    @pytest.fixture
    async def contents(self, tmp_path: Path) -> AsyncIterator[Contents]:
        async with fake_s3() as server:
            bucket = Bucket(BucketClient(server.rules, ("key", "secret")), scratch=tmp_path, linger_s=0.01)
            await bucket.open()
            yield bucket
            bucket.close()
