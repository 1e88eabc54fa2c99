"""AWS's side of the wire: credentials, Signature Version 4, and the binary event stream.

The only module that touches botocore, which is the optional extra ``warmgate[bedrock]`` and is imported when the first
of these classes is built. Of botocore the credential chain, the signer and the frame decoder are used; requests go out
through the gateway's own HTTP client.
"""

import asyncio
import functools
import importlib
import logging
import struct
from collections.abc import Callable
from typing import Any, Protocol

from gateway.backends.bedrock.frame import Frame
from gateway.protocol.errors import ConnectFailed, ReplyBroken

_SIGN_IN_THREAD_BYTES = 256 * 1024  # the signature hashes the whole body: 1.4 ms per MB measured, too long for the loop


class BotocoreMissingError(ImportError):
    """A Bedrock backend is configured, and botocore is not installed."""


def _botocore(module: str) -> Any:
    try:
        return importlib.import_module(f"botocore.{module}")
    except ModuleNotFoundError as error:
        raise BotocoreMissingError("A Bedrock backend needs botocore: install warmgate[bedrock].") from error
    finally:
        # At DEBUG botocore logs what it signs and what STS answers, session tokens and secret keys included.
        logging.getLogger("botocore").setLevel(logging.INFO)


class FrozenCredentials(Protocol):
    """Credentials that cannot change, or go and fetch others, while they are used."""

    @property
    def access_key(self) -> str: ...
    @property
    def secret_key(self) -> str: ...
    @property
    def token(self) -> str | None: ...


class CredentialChain:
    """botocore's default chain: environment, web identity (IRSA), profile, container (Pod Identity), instance.

    Looking up and refreshing block on files and HTTP, so both happen in a thread, once for all who wait. In between,
    credentials come from memory until 15 minutes before they expire, when botocore begins to refresh them (and goes on
    with the old ones down to 10 minutes if that fails).
    """

    def __init__(self, *, profile: str | None = None, new_session: Callable[[], Any] | None = None) -> None:
        """*profile* is a named profile of the AWS configuration; None takes the chain's own choice."""
        self._new_session = new_session or functools.partial(_botocore("session").Session, profile=profile)
        exceptions = _botocore("exceptions")
        self._errors = (exceptions.BotoCoreError, exceptions.ClientError, OSError, RuntimeError)
        self._source: Any = None
        self._frozen: FrozenCredentials | None = None
        self._lookup: asyncio.Future[FrozenCredentials] | None = None

    async def get(self) -> FrozenCredentials:
        """Credentials to sign with.

        Raises:
            ConnectFailed: the chain has none, or could not renew them.
        """
        if self._frozen is not None and not self._is_due():
            return self._frozen
        if self._lookup is None:
            self._lookup = asyncio.get_running_loop().run_in_executor(None, self._resolve)
            self._lookup.add_done_callback(self._keep)
        try:
            # Shielded: one caller that leaves must not take the lookup from the others.
            return await asyncio.shield(self._lookup)
        except self._errors as error:
            # The cause is named by its class only: botocore's messages quote paths, roles and accounts.
            raise ConnectFailed(
                f"the gateway's AWS credentials could not be obtained ({type(error).__name__})"
            ) from None

    def forget(self) -> None:
        """Drop what is held, so that the next call walks the chain again."""
        self._source = self._frozen = None

    def _is_due(self) -> bool:
        """Credentials without an expiry (static keys) have no ``refresh_needed``."""
        refresh_needed = getattr(self._source, "refresh_needed", None)
        return refresh_needed is not None and bool(refresh_needed())

    def _resolve(self) -> FrozenCredentials:
        """Blocking. Runs in a thread."""
        source = self._source
        if source is None:
            source = self._new_session().get_credentials()
        if source is None:
            raise ConnectFailed("the gateway has no AWS credentials to call Bedrock with")
        frozen: FrozenCredentials = source.get_frozen_credentials()
        self._source = source
        return frozen

    def _keep(self, lookup: asyncio.Future[FrozenCredentials]) -> None:
        self._lookup = None
        # Asking for the exception also marks it as seen when every caller has left.
        if not lookup.cancelled() and lookup.exception() is None:
            self._frozen = lookup.result()


class SigV4Signer:
    """Signs requests for the service name ``bedrock`` (which is not the host's ``bedrock-runtime``)."""

    def __init__(self, *, region: str, credentials: CredentialChain) -> None:
        self._region = region
        self._credentials = credentials
        self._new_auth = _botocore("auth").SigV4Auth
        self._new_request = _botocore("awsrequest").AWSRequest

    async def sign(self, *, url: str, headers: dict[str, str], body: bytes, method: str = "POST") -> dict[str, str]:
        """Return *headers* of a request to *url* with the signature's headers added.

        The path of *url* is percent-encoded once, as it goes on the wire; the canonical form that is hashed encodes it
        again.

        Raises:
            ConnectFailed: there are no credentials.
        """
        credentials = await self._credentials.get()
        if len(body) > _SIGN_IN_THREAD_BYTES:
            return await asyncio.to_thread(self._signed, credentials, method, url, headers, body)
        return self._signed(credentials, method, url, headers, body)

    def forget_credentials(self) -> None:
        """Drop the credentials held: AWS says that they have expired."""
        self._credentials.forget()

    def _signed(
        self, credentials: FrozenCredentials, method: str, url: str, headers: dict[str, str], body: bytes
    ) -> dict[str, str]:
        request = self._new_request(method=method, url=url, data=body, headers=headers)
        self._new_auth(credentials, "bedrock", self._region).add_auth(request)
        return dict(request.headers.items())


class FrameParser:
    """Bytes in, as the network cuts them; frames out."""

    def __init__(self) -> None:
        eventstream = _botocore("eventstream")
        self._buffer = eventstream.EventStreamBuffer()
        # After the checksum only a malformed header can fail, as one of the last three.
        self._errors = (eventstream.ParserError, KeyError, struct.error, UnicodeDecodeError)
        self._leftover = 0

    @property
    def leftover(self) -> int:
        """Bytes that no whole frame has accounted for. Above 0 at the end, the stream was cut."""
        return self._leftover

    def feed(self, data: bytes) -> None:
        self._buffer.add_data(data)
        self._leftover += len(data)

    def next(self) -> Frame | None:
        """The next whole frame, or None until more bytes come.

        Raises:
            ReplyBroken: a checksum or a length is wrong.
        """
        try:
            message = next(self._buffer, None)
        except self._errors as error:
            raise ReplyBroken("Bedrock's event stream is damaged") from error
        if message is None:
            return None
        self._leftover -= message.prelude.total_length
        return Frame(message.headers, message.payload)
