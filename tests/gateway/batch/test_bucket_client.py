from collections.abc import AsyncIterator

import pytest

from gateway.batch import bucket_client
from gateway.batch.bucket_client import BucketClient, BucketRules
from gateway.protocol.errors import ContentMissing, FilesUnavailable
from tests.fakes.s3 import FakeS3, Fault, fake_s3

KEYS = ("key", "secret")


@pytest.fixture
async def server() -> AsyncIterator[FakeS3]:
    async with fake_s3() as server:
        yield server


@pytest.fixture
async def client(server: FakeS3, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BucketClient]:
    """A client that makes two attempts at a request."""
    monkeypatch.setattr(bucket_client, "RETRIES", 2)
    client = BucketClient(server.rules, KEYS)
    yield client
    client.close()


async def first_bytes(client: BucketClient) -> bytes:
    async with client.opened("file-1", 0, 3) as answer:
        return await answer.read(3)


async def test_a_request_that_is_throttled_is_repeated(client: BucketClient, server: FakeS3) -> None:
    server.objects["w/file-1"] = b"one"
    server.faults += [Fault("GET", "SlowDown")]

    assert b"one" == await first_bytes(client)
    assert 2 == server.asked["GET"]


@pytest.mark.parametrize("code", ["SlowDown", "AccessDenied", "NoSuchBucket", "InternalError"])
async def test_the_cause_of_a_refusal_is_named(client: BucketClient, server: FakeS3, code: str) -> None:
    server.faults += [Fault("GET", code)] * 20  # type: ignore[arg-type]
    with pytest.raises(FilesUnavailable, match=rf"bucket of files \(files\.s3\) cannot be used: {code}$") as refusal:
        await first_bytes(client)

    assert not isinstance(refusal.value, ContentMissing)
    assert (503, 5) == (refusal.value.status, refusal.value.retry_after_s)


async def test_a_bucket_that_cannot_be_reached_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_client, "RETRIES", 1)
    client = BucketClient(BucketRules("files", endpoint_url="http://127.0.0.1:9", region="us-east-1"), KEYS)
    with pytest.raises(FilesUnavailable, match="cannot be used: EndpointConnectionError"):
        await client.size("x")
    client.close()


async def test_missing_credentials_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their error names no path and no account."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere/config")
    client = BucketClient(BucketRules("files", endpoint_url="http://127.0.0.1:9", region="us-east-1"))
    with pytest.raises(FilesUnavailable, match=r"cannot be used: NoCredentialsError$"):
        await client.size("x")
    client.close()
