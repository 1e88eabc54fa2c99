"""E-mails, sent to a real SMTP server."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword
from msgspec import structs

from gateway.telemetry.alert_delivery.delivery import Failure
from gateway.telemetry.alert_delivery.email import Email, MailServer, message
from tests.certificates import without_key_identifiers
from tests.gateway.telemetry.alert_delivery.examples import an_alert

PASSWORD = "a-password-of-the-mail-server"


@dataclass
class Mailbox:
    """Accepts mails, except with *answer*, and the recipients in *unknown*."""

    answer: str = "250 OK"
    unknown: tuple[str, ...] = ()
    got: list[Envelope] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802  # the library's names
        self, server: Any, session: Any, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.unknown:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:  # noqa: N802
        if self.answer.startswith("250"):
            self.got.append(envelope)
        return self.answer


@asynccontextmanager
async def served(mailbox: Mailbox, *, ssl_context: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[int]:
    """The port of a server for *mailbox*."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(mailbox, hostname="localhost", loop=loop, **options), "127.0.0.1", 0, ssl=ssl_context
    )
    try:
        port: int = server.sockets[0].getsockname()[1]
        yield port
    finally:
        server.close()


def sends_to(port: int, *, timeout_s: float = 30.0, **server: Any) -> Email:
    found = MailServer(**{"host": "127.0.0.1", "port": port, "encryption": "none", **server})
    return Email(
        "finance",
        found,
        sender="warmgate@example.com",
        recipients=["a@example.com", "b@example.com"],
        timeout_s=timeout_s,
    )


def test_the_mail_says_what_happened() -> None:
    """A mail that is sent twice has the same id."""
    mail = message(an_alert(), "warmgate@example.com", ["a@example.com", "b@example.com"])

    assert "Warmgate: budget usd_per_month of team blue at 80 %" == mail["Subject"]
    assert ("warmgate@example.com", "a@example.com, b@example.com", "<a@warmgate>") == (
        *(mail["From"], mail["To"], mail["Message-ID"]),
    )
    assert (
        "The budget usd_per_month of team 'blue' has reached 80 % in 2026-11: 8.25 of 10 used.\n\n"
        "Recorded at 2026-11-21T12:00:00Z.\n"
    ) == mail.get_content()


def test_names_of_callers_add_no_headers() -> None:
    alert = structs.replace(an_alert(), scope="user", name="ann\r\nBcc: all@example.com")
    mail = message(alert, "warmgate@example.com", ["a@example.com"])

    assert "Bcc" not in mail
    assert "Bcc: all@example.com" not in mail.get_content().splitlines()


async def test_all_recipients_get_one_mail() -> None:
    mailbox = Mailbox()
    async with served(mailbox) as port:
        assert None is await sends_to(port).send(an_alert())
    (envelope,) = mailbox.got

    assert (["a@example.com", "b@example.com"], "warmgate@example.com") == (envelope.rcpt_tos, envelope.mail_from)
    assert isinstance(envelope.content, bytes)
    assert "<a@warmgate>" == message_from_bytes(envelope.content)["Message-ID"]


@pytest.mark.parametrize("encryption", ["starttls", "tls"])
async def test_the_connection_is_encrypted_before_the_login(tmp_path: Path, encryption: str) -> None:
    certificates = without_key_identifiers(tmp_path)
    mailbox, seen = Mailbox(), []

    def check(server: SMTP, session: Any, envelope: Any, mechanism: str, data: LoginPassword) -> AuthResult:
        seen.append((session.ssl is not None or encryption == "tls", data.login, data.password))
        return AuthResult(success=True)

    context = certificates.server_context()
    options: dict[str, Any] = {"tls_context": context} if encryption == "starttls" else {"ssl_context": context}
    async with served(mailbox, authenticator=check, auth_require_tls=encryption == "starttls", **options) as port:
        sender = sends_to(
            port, encryption=encryption, ca_file=certificates.authority, username="warmgate", password=PASSWORD
        )
        assert None is await sender.send(an_alert())

    assert [(True, b"warmgate", PASSWORD.encode())] == seen
    assert 1 == len(mailbox.got)


@pytest.mark.parametrize("encryption", ["starttls", "tls"])
async def test_an_unknown_certificate_gets_no_password(tmp_path: Path, encryption: str) -> None:
    context: ssl.SSLContext = without_key_identifiers(tmp_path).server_context()
    options: dict[str, Any] = {"tls_context": context} if encryption == "starttls" else {"ssl_context": context}
    mailbox = Mailbox()
    async with served(mailbox, **options) as port:
        found = await sends_to(port, encryption=encryption, username="warmgate", password=PASSWORD).send(an_alert())

    assert (Failure("SSLCertVerificationError"), []) == (found, mailbox.got)


async def test_a_server_without_encryption_gets_no_password() -> None:
    mailbox = Mailbox()
    async with served(mailbox) as port:
        found = await sends_to(port, encryption="starttls", username="warmgate", password=PASSWORD).send(an_alert())

    assert (Failure("SMTPNotSupportedError"), []) == (found, mailbox.got)


@pytest.mark.parametrize(
    ("answer", "failure"),
    [("451 later", Failure("SMTP 451")), ("554 never", Failure("SMTP 554", is_refusal=True))],
)
async def test_answers(answer: str, failure: Failure) -> None:
    async with served(Mailbox(answer)) as port:
        assert failure == await sends_to(port).send(an_alert())


async def test_one_known_recipient_is_enough() -> None:
    some, none = Mailbox(unknown=("a@example.com",)), Mailbox(unknown=("a@example.com", "b@example.com"))
    async with served(some) as port:
        assert None is await sends_to(port).send(an_alert())
    async with served(none) as port:
        assert Failure("SMTP 550", is_refusal=True) == await sends_to(port).send(an_alert())

    assert ["b@example.com"] == some.got[0].rcpt_tos


async def test_a_server_that_is_not_there() -> None:
    assert Failure("ConnectionRefusedError") == await sends_to(1, host="127.0.0.1").send(an_alert())


async def test_a_server_that_never_answers() -> None:
    """The event loop does not wait for it."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    found = await sends_to(port, host="127.0.0.1", timeout_s=0.2).send(an_alert())
    server.close()

    assert found in {Failure("no answer in time"), Failure("TimeoutError")}


def test_the_password_is_not_shown() -> None:
    assert PASSWORD not in repr(MailServer("h", 587, "starttls", username="u", password=PASSWORD))
