import asyncio
import contextlib
import datetime as dt
import importlib
import logging
import re
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import botocore.auth
import pytest
from botocore.credentials import Credentials, ReadOnlyCredentials, RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError

from gateway.backends.bedrock.aws import BotocoreMissingError, CredentialChain, FrameParser, SigV4Signer
from gateway.backends.bedrock.frame import Frame
from gateway.protocol.errors import ConnectFailed, ReplyBroken

MESSAGE_START = bytes.fromhex(
    "000000760000005296d5fade0b3a6576656e742d7479706507000c6d65737361676553746172740d3a636f6e74656e742d74797065"
    "0700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d747970650700056576656e747b22726f6c65223a22617373"
    "697374616e74227d6fa8c599"
)
THROTTLED = bytes.fromhex(
    "0000008800000061de0175f40f3a657863657074696f6e2d747970650700137468726f74746c696e67457863657074696f6e0d3a63"
    "6f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d74797065070009657863657074"
    "696f6e7b226d657373616765223a22736c6f7720646f776e227d832ee072"
)
FAILED = bytes.fromhex(
    "0000005a0000004a8188a08d0d3a6d6573736167652d747970650700056572726f720b3a6572726f722d636f646507000f496e7465"
    "726e616c4661696c7572650e3a6572726f722d6d657373616765070004626f6f6dd78e0703"
)
FRAMES = [
    Frame(
        {":event-type": "messageStart", ":content-type": "application/json", ":message-type": "event"},
        b'{"role":"assistant"}',
    ),
    Frame(
        {":exception-type": "throttlingException", ":content-type": "application/json", ":message-type": "exception"},
        b'{"message":"slow down"}',
    ),
    Frame({":message-type": "error", ":error-code": "InternalFailure", ":error-message": "boom"}, b""),
]


class Session:
    """Hands out one source of credentials, and counts how often it is asked."""

    def __init__(self, source: object) -> None:
        self._source = source
        self.asked = 0

    def get_credentials(self) -> Any:
        self.asked += 1
        if isinstance(self._source, Exception):
            raise self._source
        return self._source


def expiring(*, in_s: float, refreshed: list[str]) -> RefreshableCredentials:
    """Credentials that end *in_s* from now, and that note each refresh in *refreshed*."""
    now = dt.datetime.now(dt.UTC)

    def refresh() -> dict[str, str]:
        refreshed.append(threading.current_thread().name)
        return {
            "access_key": f"AKID{len(refreshed)}",
            "secret_key": "secret",
            "token": "token",
            "expiry_time": (now + dt.timedelta(hours=1)).isoformat(),
        }

    return RefreshableCredentials(
        "AKID0", "secret", "token", now + dt.timedelta(seconds=in_s), refresh, "container-role"
    )


# --- credentials


async def test_the_environment_is_part_of_the_chain() -> None:
    """botocore's own chain is walked: keys in the environment are found."""
    credentials = await CredentialChain().get()

    assert ("AKIDEXAMPLE", "TOKEN") == (credentials.access_key, credentials.token)


async def test_credentials_are_looked_up_once_for_all_who_wait() -> None:
    """Concurrent first requests share one walk of the chain, and later ones take the result from memory."""
    session = Session(Credentials("AKID", "secret"))
    chain = CredentialChain(new_session=lambda: session)

    first = await asyncio.gather(*(chain.get() for _ in range(20)))
    later = await chain.get()

    assert 1 == session.asked
    assert {"AKID"} == {credentials.access_key for credentials in [*first, later]}


async def test_credentials_far_from_their_end_come_from_memory() -> None:
    """With more than 15 minutes left nothing is refreshed."""
    refreshed: list[str] = []
    chain = CredentialChain(new_session=lambda: Session(expiring(in_s=3600, refreshed=refreshed)))

    credentials = [await chain.get(), await chain.get()]

    assert ["AKID0", "AKID0"] == [c.access_key for c in credentials]
    assert [] == refreshed


async def test_credentials_near_their_end_are_refreshed_in_a_thread() -> None:
    """Within botocore's window the next call refreshes once, and never on the event loop's thread."""
    refreshed: list[str] = []
    chain = CredentialChain(new_session=lambda: Session(expiring(in_s=300, refreshed=refreshed)))

    credentials = [await chain.get(), await chain.get()]

    assert ["AKID1", "AKID1"] == [c.access_key for c in credentials]
    assert 1 == len(refreshed)
    assert threading.current_thread().name not in refreshed


async def test_forgotten_credentials_are_looked_up_again() -> None:
    """After `forget` the chain is walked again."""
    session = Session(Credentials("AKID", "secret"))
    chain = CredentialChain(new_session=lambda: session)
    await chain.get()

    chain.forget()
    await chain.get()

    assert 2 == session.asked


async def test_a_caller_that_leaves_does_not_take_the_lookup_along() -> None:
    """Cancelling one of two who wait leaves the other its credentials."""
    may_answer = threading.Event()

    class SlowSession(Session):
        def get_credentials(self) -> Any:
            may_answer.wait(5)
            return super().get_credentials()

    session = SlowSession(Credentials("AKID", "secret"))
    chain = CredentialChain(new_session=lambda: session)
    leaves, stays = (asyncio.create_task(chain.get()) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    may_answer.set()

    assert "AKID" == (await stays).access_key
    assert 1 == session.asked
    assert leaves.cancelled()


@pytest.mark.parametrize(
    "source",
    [
        None,
        CredentialRetrievalError(provider="assume-role", error_msg="arn:aws:iam::123456789012:role/x"),
        FileNotFoundError("/var/run/secrets/token"),
    ],
)
async def test_no_credentials_mean_that_nothing_was_sent(source: object) -> None:
    """A chain that is empty or fails is `ConnectFailed`, without a role, path or account in the message."""
    chain = CredentialChain(new_session=lambda: Session(source))

    with pytest.raises(ConnectFailed) as caught:
        await chain.get()

    assert "credentials" in caught.value.message
    assert not any(word in caught.value.message for word in ("arn", "123456789012", "/var"))


async def test_a_failed_lookup_is_tried_again() -> None:
    """A failure is not kept: the next call walks the chain again."""
    sessions = [Session(None), Session(Credentials("AKID", "secret"))]
    chain = CredentialChain(new_session=lambda: sessions.pop(0))

    with pytest.raises(ConnectFailed):
        await chain.get()

    assert "AKID" == (await chain.get()).access_key


# --- the two ways of a pod on EKS


class Answerer:
    """An HTTP server on the loopback that gives every request the same body, and remembers what it was asked."""

    def __init__(self, body: str) -> None:
        self._body = body.encode()
        self.asked: list[str] = []

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        self.asked.append(head + (await reader.readexactly(int(length[1]) if length else 0)).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(self._body))
        writer.write(self._body)
        await writer.drain()
        writer.close()


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without static keys, which would win over all others."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


async def test_pod_identity_gives_credentials(no_keys: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The agent on the node is asked with the token from the file that EKS mounts."""
    token = tmp_path / "token"
    token.write_text("pod-token")
    expires = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=6)).isoformat()
    agent = Answerer(
        f'{{"AccessKeyId":"ASIAPOD","SecretAccessKey":"secret","Token":"session","Expiration":"{expires}"}}'
    )
    async with agent.serving() as url:
        no_keys.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/v1/credentials")
        no_keys.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))

        credentials = await CredentialChain().get()

    assert ("ASIAPOD", "session") == (credentials.access_key, credentials.token)
    assert "authorization: pod-token" in agent.asked[0].lower()
    assert agent.asked[0].startswith("GET /v1/credentials")


async def test_a_service_account_gives_credentials(no_keys: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """IRSA: the web identity of the pod is exchanged for a role at STS, and comes before Pod Identity."""
    token = tmp_path / "token"
    token.write_text("web-identity")
    expires = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    sts = Answerer(
        '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
        "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAIRSA</AccessKeyId>"
        "<SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>"
        f"<Expiration>{expires}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
        "</AssumeRoleWithWebIdentityResponse>"
    )
    async with sts.serving() as url:
        no_keys.setenv("AWS_ENDPOINT_URL_STS", url)
        no_keys.setenv("AWS_REGION", "us-east-1")
        no_keys.setenv("AWS_DEFAULT_REGION", "us-east-1")
        no_keys.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/gateway")
        no_keys.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
        no_keys.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:9/never-asked")

        credentials = await CredentialChain().get()

    assert ("ASIAIRSA", "session") == (credentials.access_key, credentials.token)
    assert "WebIdentityToken=web-identity" in sts.asked[0]


# --- signature


@pytest.mark.parametrize(
    ("path", "signature"),
    [
        (
            "/model/qwen.qwen3-32b-v1%3A0/converse",
            "6ab02585ed2f46f1a4ef7e7c5e8adc07c29f12f31f91d85091a77db44baafb59",
        ),
        (
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc/converse",
            "10fce6d9e4e3e3bf7a5670e35897a35c4948d01512b946948ba45eb8315db31c",
        ),
    ],
)
async def test_the_signature_is_awss(monkeypatch: pytest.MonkeyPatch, path: str, signature: str) -> None:
    """With the example key of AWS's documents the signature is the one that AWS's C implementation makes too."""
    moment = dt.datetime(2026, 11, 20, 12, 0, 0, tzinfo=dt.UTC)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: moment)
    signer = SigV4Signer(region="us-east-1", credentials=CredentialChain())

    headers = await signer.sign(
        url=f"https://bedrock-runtime.us-east-1.amazonaws.com{path}",
        headers={"Content-Type": "application/json"},
        body=b'{"messages":[]}',
    )

    assert (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261120/us-east-1/bedrock/aws4_request, "
        f"SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature={signature}"
    ) == headers["Authorization"]
    assert ("20261120T120000Z", "TOKEN") == (headers["X-Amz-Date"], headers["X-Amz-Security-Token"])


async def test_a_large_body_is_signed_off_the_loop() -> None:
    """Hashing above 256 KB happens in a thread, and below it at once."""
    threads: list[str] = []

    class Key(str):
        __slots__ = ()

        def __format__(self, spec: str) -> str:
            threads.append(threading.current_thread().name)
            return super().__format__(spec)

    credentials = ReadOnlyCredentials("AKID", Key("secret"), None)
    source = type("Source", (), {"get_frozen_credentials": lambda self: credentials})()
    signer = SigV4Signer(region="us-east-1", credentials=CredentialChain(new_session=lambda: Session(source)))

    for size in (256 * 1024, 256 * 1024 + 1):
        await signer.sign(url="http://bedrock/model/m/converse", headers={}, body=b"x" * size)

    main = threading.current_thread().name
    assert [True, False] == [name == main for name in threads]


async def test_botocore_does_not_log_what_it_signs(caplog: pytest.LogCaptureFixture) -> None:
    """Even where everything is logged, the session token is not: botocore's own debug lines are off."""
    caplog.set_level(logging.DEBUG)
    signer = SigV4Signer(region="us-east-1", credentials=CredentialChain())

    await signer.sign(url="http://bedrock/model/m/converse", headers={}, body=b"{}")

    assert "TOKEN" not in caplog.text


def test_a_missing_botocore_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the optional package, building any of the classes says what to install."""
    for name in list(sys.modules):
        if name.partition(".")[0] == "botocore":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)

    for build in (CredentialChain, FrameParser):
        with pytest.raises(BotocoreMissingError, match=r"pip install 'warmgate\[bedrock\]'"):
            build()


def test_the_package_is_imported_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but building a backend needs the optional package."""
    monkeypatch.setitem(sys.modules, "botocore", None)
    for name in list(sys.modules):
        if name.startswith("gateway.backends.bedrock"):
            monkeypatch.delitem(sys.modules, name)

    assert importlib.import_module("gateway.backends.bedrock.backend").BedrockBackend


# --- frames


@pytest.mark.parametrize("piece_bytes", [1, 2, 7, 64, 117, 118, 119, 1000])
def test_frames_are_read_however_the_network_cuts_them(piece_bytes: int) -> None:
    """Pieces of any size, down to single bytes, give the same three frames with nothing left over."""
    data = MESSAGE_START + THROTTLED + FAILED
    parser, frames = FrameParser(), []

    for start in range(0, len(data), piece_bytes):
        parser.feed(data[start : start + piece_bytes])
        while frame := parser.next():
            frames.append(frame)

    assert FRAMES == frames
    assert 0 == parser.leftover


def test_a_cut_frame_leaves_bytes_over() -> None:
    """A stream that ends inside a frame is reported from a whole one by its leftover, even in the first 12 bytes."""
    parser = FrameParser()
    parser.feed(MESSAGE_START + THROTTLED[:5])

    assert FRAMES[0] == parser.next()
    assert parser.next() is None
    assert 5 == parser.leftover


@pytest.mark.parametrize("at", [3, 9, 20, 100, 117])
def test_a_damaged_frame_breaks_the_reply(at: int) -> None:
    """One flipped bit in prelude, headers, payload or checksum is noticed."""
    damaged = bytearray(MESSAGE_START)
    damaged[at] ^= 1
    parser = FrameParser()
    parser.feed(bytes(damaged) + MESSAGE_START)

    with pytest.raises(ReplyBroken, match="corrupt"):
        parser.next()


def test_whole_frames_before_a_damaged_one_are_handed_out() -> None:
    """Damage further on does not take back what came before it in the same piece."""
    parser = FrameParser()
    parser.feed(MESSAGE_START + b"\x00" * 16)

    assert FRAMES[0] == parser.next()
    with pytest.raises(ReplyBroken):
        parser.next()
