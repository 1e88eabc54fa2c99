"""Certificates that the gateway accepts of servers, where Python verifies as strictly as 3.13 does by default."""

import asyncio
import ssl
import threading
from pathlib import Path

import httpx
import pytest

from gateway.backends.backend import Call
from gateway.backends.http_client import HttpClient
from gateway.backends.upstream.tls import accepting_missing_identifiers
from gateway.backends.worker import HttpWorker
from gateway.protocol.errors import ConnectFailed
from gateway.telemetry.trace_export.sender import Sender
from gateway.workers.kubernetes.access import ApiAccess
from tests.certificates import Certificates, verify_strictly, without_key_identifiers
from tests.gateway.backends.upstream.peer import Request, Wire, serving


@pytest.fixture
def certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certificates:
    """The system trusts their authority."""
    verify_strictly(monkeypatch)
    found = without_key_identifiers(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(found.authority))
    return found


async def answers(_: Request, wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")


def call() -> Call:
    return Call(b"GET", b"/health", [], b"", False, "tiny")


async def test_python_alone_refuses_a_certificate_without_key_identifiers(certificates: Certificates) -> None:
    async with serving(answers, ssl_context=certificates.server_context()) as peer, httpx.AsyncClient() as http:
        with pytest.raises(httpx.ConnectError, match="Missing Authority Key Identifier"):
            await http.get(peer.url)


async def test_a_worker_needs_no_key_identifiers(certificates: Certificates) -> None:
    """A private authority may leave them out."""
    async with serving(answers, ssl_context=certificates.server_context()) as peer:
        worker = HttpWorker("w1", peer.url)
        reply = await worker.send(call())

        assert 200 == reply.status
        await reply.aclose()
        await worker.aclose()


async def test_a_worker_needs_its_own_name(certificates: Certificates) -> None:
    """A certificate of the same authority for another name is refused."""
    other = without_key_identifiers(certificates.authority.parent, names="DNS:other.example")
    async with serving(answers, ssl_context=other.server_context()) as peer:
        worker = HttpWorker("w1", peer.url)

        with pytest.raises(ConnectFailed, match="SSLCertVerificationError"):
            await worker.send(call())


async def test_the_api_server_needs_no_key_identifiers(certificates: Certificates) -> None:
    """The authorities of older EKS clusters leave them out."""
    folder = certificates.authority.parent
    (folder / "token").write_text("t-1")
    async with serving(answers, ssl_context=certificates.server_context()) as peer:
        tls = ApiAccess(peer.url, service_account=folder).read().tls
        assert tls is not None
        async with HttpClient(verify=tls) as http:
            assert "hello" == (await http.get(peer.url)).text


async def test_other_services_need_no_key_identifiers(certificates: Certificates) -> None:
    """Neither those that are asked over httpx, nor the receiver of traces."""
    async with serving(answers, ssl_context=certificates.server_context()) as peer:
        sender = Sender(peer.url, {}, timeout_s=10, rejected=lambda _: 0, pauses_s=())
        async with HttpClient() as http:
            assert "hello" == (await http.get(peer.url)).text
        assert await asyncio.to_thread(sender, b"spans", threading.Event()) is None
        sender.close()


def test_everything_else_is_verified_as_before() -> None:
    """Only the strict form is given up: chain and name are still required."""
    context = accepting_missing_identifiers(ssl.create_default_context())

    assert (ssl.CERT_REQUIRED, True) == (context.verify_mode, context.check_hostname)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
