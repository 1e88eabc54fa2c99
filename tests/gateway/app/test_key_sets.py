"""Key sets of issuers, read from a server on this machine."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.app import key_sets
from gateway.app.identity_rules import KeySource
from gateway.app.key_sets import KeySetReader
from gateway.tenancy.identity.signing_keys import KeysUnreadableError

KEYS = b'{"keys": []}'


@asynccontextmanager
async def issuer(answers: Mapping[str, bytes], seen: list[bytes] | None = None) -> AsyncIterator[str]:
    """A server that answers each path with the bytes of a whole response."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(head)
        writer.write(answers.get(head.split()[1].decode(), b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body


def source(address: str, **fields: object) -> KeySource:
    known = {"issuer": address, "url": None, "ca_file": None, "token_file": None, "refresh_s": 300, "stale_s": 3600}
    return KeySource(**{**known, **fields})  # type: ignore[arg-type]


async def fault_of(reader: KeySetReader) -> str:
    with pytest.raises(KeysUnreadableError) as fault:
        await reader()
    return str(fault.value)


async def test_the_address_of_the_keys_is_discovered() -> None:
    answers: dict[str, bytes] = {"/realms/ai/keys": ok(KEYS)}
    async with issuer(answers) as address:
        realm = f"{address}/realms/ai"
        document = b'{"issuer": "%s", "jwks_uri": "%s/keys", "x": 1}' % (realm.encode(), realm.encode())
        answers["/realms/ai/.well-known/openid-configuration"] = ok(document)

        assert KEYS == await KeySetReader(source(realm))()


async def test_a_configured_address_needs_no_discovery(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("service-account-token\n")
    seen: list[bytes] = []
    async with issuer({"/openid/v1/jwks": ok(KEYS)}, seen) as address:
        reader = KeySetReader(source(address, url=f"{address}/openid/v1/jwks", token_file=tmp_path / "token"))

        assert KEYS == await reader()
        assert b"authorization: Bearer service-account-token\r\n" in seen[0].lower().replace(b"bearer", b"Bearer")


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (b"<html>", "the discovery document is not valid"),
        (b"{}", "the discovery document is not valid"),
        (
            b'{"issuer": "https://evil.example.com", "jwks_uri": "x"}',
            "the discovery document belongs to another issuer",
        ),
    ],
)
async def test_a_wrong_discovery_document_is_a_fault(document: bytes, fault: str) -> None:
    async with issuer({"/.well-known/openid-configuration": ok(document)}) as address:
        assert fault == await fault_of(KeySetReader(source(address)))


async def test_a_status_other_than_200_is_a_fault() -> None:
    moved = b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n"
    async with issuer({"/keys": moved}) as address:
        assert "the issuer answered with status 302" == await fault_of(
            KeySetReader(source(address, url=f"{address}/keys"))
        )
        assert "the issuer answered with status 404" == await fault_of(KeySetReader(source(address)))


async def test_a_document_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sets, "MOST_BYTES", 1000)
    async with issuer({"/keys": ok(b"x" * 1001)}) as address:
        assert "the document has more than 1,000 bytes" == await fault_of(
            KeySetReader(source(address, url=f"{address}/keys"))
        )


async def test_an_issuer_that_does_not_answer_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sets, "TIMEOUT_S", 0.05)
    async with issuer({"/keys": b""}) as address:
        fault = await fault_of(KeySetReader(source(address, url=f"{address}/keys")))
    assert fault in {"the issuer did not answer within 0.05 s", "the issuer cannot be reached: RemoteProtocolError"}
    assert "the issuer cannot be reached: ConnectError" == await fault_of(KeySetReader(source("http://127.0.0.1:1")))


async def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    reader = KeySetReader(source("http://127.0.0.1:1", token_file=tmp_path / "absent"))
    assert "a file cannot be used: FileNotFoundError" == await fault_of(reader)
    (tmp_path / "ca.crt").write_text("no certificate")
    reader = KeySetReader(source("https://127.0.0.1:1", ca_file=tmp_path / "ca.crt"))
    assert "a file cannot be used: SSLError" == await fault_of(reader)
