import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.batch import bucket, bucket_client, line_runner
from gateway.batch.bucket import Bucket
from gateway.batch.bucket_client import BucketClient
from gateway.protocol.errors import FilesUnavailable
from tests.fakes.s3 import FakeS3, Fault, fake_s3
from tests.gateway.batch import test_runner
from tests.gateway.batch.examples import names_in
from tests.gateway.batch.test_runner import _App, running

KEYS = ("key", "secret")
MB = 2**20
A_DAY = 86_400

_quick = test_runner._quick


class Storage(NamedTuple):
    bucket: Bucket
    server: FakeS3


@pytest.fixture
async def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Storage]:
    """A bucket whose client makes two attempts at a request."""
    monkeypatch.setattr(bucket_client, "RETRIES", 2)
    monkeypatch.setattr(line_runner, "FILES_AGAIN_S", 0.01)
    async with fake_s3() as server:
        made = Bucket(BucketClient(server.rules, KEYS), scratch=tmp_path, linger_s=0.01)
        yield Storage(made, server)
        made.close()


async def test_names_of_objects_begin_with_the_prefix(storage: Storage) -> None:
    writer = storage.bucket.writer("file-1")
    await writer.write(b"x")
    await writer.keep()

    assert {"w/file-1": b"x"} == storage.server.objects


async def test_outputs_that_arrive_together_share_an_object(storage: Storage) -> None:
    appender = storage.bucket.appender("batch_1.owner.")
    together = await asyncio.gather(*(appender.append(b"one\n") for _ in range(5)))
    later = await appender.append(b"two\n")

    assert [("batch_1.owner.1.part", 4 * n) for n in range(5)] == together
    assert ("batch_1.owner.2.part", 0) == later
    assert {"PUT": 2} == storage.server.asked


async def test_an_object_takes_no_more_outputs_than_its_size_allows(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "GROUP_BYTES", 8)
    appender = storage.bucket.appender("b.")
    pieces = await asyncio.gather(*(appender.append(b"one\n") for _ in range(5)))

    assert [("b.1.part", 0), ("b.1.part", 4), ("b.2.part", 0), ("b.2.part", 4), ("b.3.part", 0)] == pieces


async def test_every_caller_learns_that_its_output_was_not_kept(storage: Storage) -> None:
    """The callers may try again."""
    appender = storage.bucket.appender("b.")
    storage.server.faults += [Fault("PUT", "AccessDenied")] * 3
    found = await asyncio.gather(*(appender.append(b"one\n") for _ in range(4)), return_exceptions=True)

    assert 3 == sum(isinstance(each, FilesUnavailable) for each in found)
    assert ("b.4.part", 0) == found[3]
    assert ("b.5.part", 0) == await appender.append(b"two\n")


async def test_an_answer_that_is_cut_off_is_continued(storage: Storage) -> None:
    content = bytes(range(256)) * 4096
    storage.server.objects["w/file-1"] = content
    storage.server.faults += [Fault("GET", "cut")] * 3

    assert content == await storage.bucket.read("file-1", 0, MB)
    assert 4 == storage.server.asked["GET"]


async def test_answers_that_are_always_cut_off_are_an_error(storage: Storage) -> None:
    storage.server.objects["w/file-1"] = b"x" * MB
    storage.server.faults += [Fault("GET", "cut")] * 20
    with pytest.raises(FilesUnavailable, match="cannot be used"):
        await storage.bucket.read("file-1", 0, MB)

    assert bucket.READS == storage.server.asked["GET"]


async def test_an_object_that_became_shorter_is_noticed(storage: Storage) -> None:
    storage.server.objects["w/file-1"] = b"123"

    with pytest.raises(FilesUnavailable, match="shorter than it was"):
        [data async for data in storage.bucket.stream("file-1", 0, 4)]


async def test_a_discarded_upload_is_aborted(storage: Storage) -> None:
    writer = storage.bucket.writer("file-1")
    await writer.write(b"x" * 6 * MB)
    begun = len(storage.server.uploads)
    await writer.discard()

    assert (1, {}) == (begun, storage.server.uploads)


async def test_only_old_uploads_are_aborted(storage: Storage) -> None:
    """They are those of gateways that were killed. Uploads of other programs stay."""
    for name, begun_at in (("file-1", 1000), ("batch_2.plan", 1000), ("file-3", 2000), ("backup.tar", 1000)):
        storage.server.now = begun_at
        await storage.bucket.writer(name).write(b"x" * 6 * MB)
    await storage.bucket.remove_partial(1500 + A_DAY)

    assert ["w/file-3", "w/backup.tar"] == [upload.key for upload in storage.server.uploads.values()]


async def test_a_part_that_fails_leaves_nothing_visible(storage: Storage) -> None:
    writer = storage.bucket.writer("file-1")
    storage.server.faults += [Fault("PUT uploadId", "AccessDenied")]
    with pytest.raises(FilesUnavailable, match="AccessDenied"):
        await writer.write(b"x" * 6 * MB)
    await writer.discard()

    assert ({}, {}) == (storage.server.objects, storage.server.uploads)


async def test_many_objects_are_removed_in_pages(storage: Storage) -> None:
    storage.server.objects |= {f"w/b.{n}.part": b"" for n in range(1005)}
    storage.server.objects["w/other"] = b""
    await storage.bucket.remove_all("b.")

    assert ["w/other"] == list(storage.server.objects)


async def test_a_download_leaves_no_file(storage: Storage, tmp_path: Path) -> None:
    storage.server.objects |= {"w/a": b"one", "w/b": b"two"}
    async with storage.bucket.local(["a", "b"]) as found:
        assert (b"one", b"two") == (found["a"].read(0, 3), found["b"].read(0, 3))
        assert [] == names_in(tmp_path)


async def test_a_scratch_folder_that_is_gone_is_named(storage: Storage, tmp_path: Path) -> None:
    found = Bucket(BucketClient(storage.server.rules, KEYS), scratch=tmp_path / "gone")

    with pytest.raises(FilesUnavailable, match=r"files\.s3\.scratch_folder\) cannot be used: No such file"):
        async with found.local(["a"]):
            pass


async def test_a_batch_runs_to_its_end_on_two_gateways_with_a_bucket(storage: Storage) -> None:
    """Then the bucket has only the uploaded file and the output file."""
    async with running(storage.bucket, gateways=2) as gateway:
        batch = await gateway.ended(await gateway.create(*"abcdefghi"))
        ids = await gateway.ids(batch.info.output_file_id)
        async with asyncio.timeout(50):
            while len(storage.server.objects) > 2:
                await asyncio.sleep(0.005)

    assert ("completed", list("abcdefghi")) == (batch.info.status, ids)
    assert sorted([batch.info.input_file_id, str(batch.info.output_file_id)]) == storage.server.names


@pytest.mark.parametrize("operation", ["PUT", "GET"])
async def test_no_line_runs_again_because_the_bucket_did_not_answer(storage: Storage, operation: str) -> None:
    """The answers wait until they can be stored."""
    app = _App()
    async with running(storage.bucket, app) as gateway:
        app.may_answer.clear()
        batch_id = await gateway.create(*"abcdef")
        async with asyncio.timeout(50):
            while len(app.asked) < 4:
                await asyncio.sleep(0.005)
        storage.server.faults += [Fault(operation, "AccessDenied")] * 7
        app.may_answer.set()
        batch = await gateway.ended(batch_id)

        assert list("abcdef") == await gateway.ids(batch.info.output_file_id)
    assert sorted("abcdef") == sorted(app.asked)
    assert [] == storage.server.faults


async def test_a_batch_is_validated_again_after_the_bucket_did_not_answer(storage: Storage) -> None:
    async with running(storage.bucket) as gateway:
        storage.server.faults += [
            Fault("COPY", "AccessDenied"),
            Fault("GET", "AccessDenied"),
            Fault("HEAD", "SlowDown"),
        ]
        batch = await gateway.ended(await gateway.create(*"abc"))

        assert list("abc") == await gateway.ids(batch.info.output_file_id)
