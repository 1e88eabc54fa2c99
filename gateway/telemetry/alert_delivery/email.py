"""Alerts as e-mails, which an SMTP server accepts."""

import asyncio
import smtplib
import socket
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Literal

from gateway.backends.upstream.tls import accepting_missing_identifiers
from gateway.telemetry.alert_delivery.delivery import TIMEOUT_S, Failure
from gateway.tenancy.alerts.alert import Alert

_HOST = "warmgate"
"""Name with which the gateway introduces itself. Its true name would need a DNS lookup."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """SMTP server, and how to reach it."""

    host: str
    port: int
    encryption: Literal["starttls", "tls", "none"]
    ca_file: Path | None = None
    """File with the certificates that sign the server's certificate, or None for the usual authorities."""
    username: str | None = None
    password: str = field(default="", repr=False)


def message(alert: Alert, sender: str, recipients: Sequence[str]) -> EmailMessage:
    """Return the e-mail for *alert*. An e-mail that is sent twice has the same ``Message-ID``."""
    mail = EmailMessage()
    mail["Subject"] = f"Warmgate: budget {alert.budget} of team {alert.team} at {100 * alert.threshold:g} %"
    mail["From"] = sender
    mail["To"] = ", ".join(recipients)
    mail["Message-ID"] = f"<{alert.id}@{_HOST}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(f"{alert.text}\n\nRecorded at {alert.time}.\n")
    return mail


class Email:
    """Receivers of e-mails at *server*. One e-mail at a time is sent, in a thread of its own."""

    def __init__(
        self,
        name: str,
        server: MailServer,
        *,
        sender: str,
        recipients: Sequence[str],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.name = name
        self._server = server
        self._sender = sender
        self._recipients = recipients
        self._timeout_s = timeout_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"mail of {name}")

    async def send(self, alert: Alert) -> Failure | None:
        mail = message(alert, self._sender, self._recipients)
        attempt = _Attempt(self._server, self._timeout_s)
        sending = asyncio.get_running_loop().run_in_executor(self._thread, attempt.send, mail)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await sending
        except TimeoutError:
            return Failure("no answer in time")
        finally:
            attempt.abort()  # ends the thread if the server sends its answers too slowly


class _Attempt:
    """Connection for one e-mail."""

    def __init__(self, server: MailServer, timeout_s: float) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._smtp: smtplib.SMTP | None = None
        self._is_aborted = False

    def send(self, mail: EmailMessage) -> Failure | None:
        """Send *mail*, and return None if the server accepted it for at least one recipient. Runs in the thread."""
        server = self._server
        try:
            smtp = self._smtp = _connected(server, self._timeout_s)
            try:
                if self._is_aborted:
                    return Failure("no answer in time")
                if server.encryption == "starttls":
                    smtp.starttls(context=_tls(server))
                if server.username is not None:
                    smtp.login(server.username, server.password)
                smtp.send_message(mail)
            finally:
                _ignoring_faults(smtp.close)
        except smtplib.SMTPRecipientsRefused as fault:
            codes = [code for code, _ in fault.recipients.values()]
            return Failure(f"SMTP {codes[0]}", all(code >= 500 for code in codes))
        except smtplib.SMTPResponseException as fault:
            return Failure(f"SMTP {fault.smtp_code}", fault.smtp_code >= 500)
        except (OSError, smtplib.SMTPException, ValueError) as fault:
            return Failure(type(fault).__name__)
        return None

    def abort(self) -> None:
        """End the connection if it is open. Runs in the event loop."""
        self._is_aborted = True
        sock = None if self._smtp is None else self._smtp.sock
        if sock is not None:
            _ignoring_faults(lambda: sock.shutdown(socket.SHUT_RDWR))


def _connected(server: MailServer, timeout_s: float) -> smtplib.SMTP:
    """Return a client that has read the greeting of *server*. Raises the same errors as smtplib."""
    if server.encryption == "tls":
        return smtplib.SMTP_SSL(server.host, server.port, context=_tls(server), local_hostname=_HOST, timeout=timeout_s)
    return smtplib.SMTP(server.host, server.port, local_hostname=_HOST, timeout=timeout_s)


def _tls(server: MailServer) -> ssl.SSLContext:
    file = None if server.ca_file is None else str(server.ca_file)
    return accepting_missing_identifiers(ssl.create_default_context(cafile=file))


def _ignoring_faults(act: Callable[[], object]) -> None:
    with suppress(OSError, smtplib.SMTPException):
        act()
