"""AWS credentials, request signing (Signature Version 4), and the parser for AWS's binary event stream.

This is the only module that uses botocore, an optional dependency (``warmgate[bedrock]``). It imports botocore when a
class of this module is first instantiated, and uses its credential chain, signer and frame decoder. Requests are sent
with the gateway's own HTTP client.
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
    """A Bedrock backend is configured, but botocore is not installed."""


def _botocore(module: str) -> Any:
    try:
        return importlib.import_module(f"botocore.{module}")
    except ModuleNotFoundError as error:
        raise BotocoreMissingError(
            "Bedrock backends require botocore. Install it with: pip install 'warmgate[bedrock]'"
        ) from error
    finally:
        # At DEBUG botocore logs what it signs and what STS answers, session tokens and secret keys included.
        logging.getLogger("botocore").setLevel(logging.INFO)


class FrozenCredentials(Protocol):
    """Immutable AWS credentials, which are not refreshed while a request is signed."""

    @property
    def access_key(self) -> str: ...
    @property
    def secret_key(self) -> str: ...
    @property
    def token(self) -> str | None: ...


class CredentialChain:
    """botocore's default credential chain: environment, web identity (IRSA), profile, container (Pod Identity),
    instance.

    Lookup and refresh block on files and HTTP, so they run in a thread, and concurrent callers share one lookup.
    Credentials are cached until 15 minutes before they expire. botocore then refreshes them, and keeps using the old
    ones until 10 minutes before expiry if refreshing fails.
    """

    def __init__(self, *, profile: str | None = None, new_session: Callable[[], Any] | None = None) -> None:
        """Use the AWS configuration profile named *profile*, or the chain's default profile if it is None."""
        self._new_session = new_session or functools.partial(_botocore("session").Session, profile=profile)
        exceptions = _botocore("exceptions")
        self._errors = (exceptions.BotoCoreError, exceptions.ClientError, OSError, RuntimeError)
        self._source: Any = None
        self._frozen: FrozenCredentials | None = None
        self._lookup: asyncio.Future[FrozenCredentials] | None = None

    async def get(self) -> FrozenCredentials:
        """Return AWS credentials for signing a request.

        Raises:
            ConnectFailed: if the credential chain finds no credentials or cannot refresh them.
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
                f"The gateway could not load or refresh its AWS credentials ({type(error).__name__})"
            ) from None

    def forget(self) -> None:
        """Discard the cached AWS credentials, so that the next request looks them up again."""
        self._source = self._frozen = None

    def _is_due(self) -> bool:
        """Return whether the credentials must be refreshed. Static keys have no ``refresh_needed`` and never expire."""
        refresh_needed = getattr(self._source, "refresh_needed", None)
        return refresh_needed is not None and bool(refresh_needed())

    def _resolve(self) -> FrozenCredentials:
        """Look up or refresh the credentials. This blocks, so it runs in a thread."""
        source = self._source
        if source is None:
            source = self._new_session().get_credentials()
        if source is None:
            raise ConnectFailed("No AWS credentials for Bedrock were found on the gateway's host")
        frozen: FrozenCredentials = source.get_frozen_credentials()
        self._source = source
        return frozen

    def _keep(self, lookup: asyncio.Future[FrozenCredentials]) -> None:
        self._lookup = None
        # Asking for the exception also marks it as seen when every caller has left.
        if not lookup.cancelled() and lookup.exception() is None:
            self._frozen = lookup.result()


class SigV4Signer:
    """Signer for requests to the AWS service ``bedrock``, although the host name begins with ``bedrock-runtime``."""

    def __init__(self, *, region: str, credentials: CredentialChain) -> None:
        self._region = region
        self._credentials = credentials
        self._new_auth = _botocore("auth").SigV4Auth
        self._new_request = _botocore("awsrequest").AWSRequest

    async def sign(self, *, url: str, headers: dict[str, str], body: bytes, method: str = "POST") -> dict[str, str]:
        """Return the headers *headers* of a request to *url*, with the AWS signature headers added.

        The path of *url* must be percent-encoded once, as it is sent. The signed canonical form encodes it a second
        time.

        Raises:
            ConnectFailed: if no AWS credentials are available.
        """
        credentials = await self._credentials.get()
        if len(body) > _SIGN_IN_THREAD_BYTES:
            return await asyncio.to_thread(self._signed, credentials, method, url, headers, body)
        return self._signed(credentials, method, url, headers, body)

    def forget_credentials(self) -> None:
        """Discard the cached AWS credentials because AWS reports that they have expired."""
        self._credentials.forget()

    def _signed(
        self, credentials: FrozenCredentials, method: str, url: str, headers: dict[str, str], body: bytes
    ) -> dict[str, str]:
        request = self._new_request(method=method, url=url, data=body, headers=headers)
        self._new_auth(credentials, "bedrock", self._region).add_auth(request)
        return dict(request.headers.items())


class FrameParser:
    """Incremental parser for the AWS event stream. It takes network data and returns complete frames."""

    def __init__(self) -> None:
        eventstream = _botocore("eventstream")
        self._buffer = eventstream.EventStreamBuffer()
        # After the checksum only a malformed header can fail, as one of the last three.
        self._errors = (eventstream.ParserError, KeyError, struct.error, UnicodeDecodeError)
        self._leftover = 0

    @property
    def leftover(self) -> int:
        """Return the number of received bytes that do not form a complete frame yet. At the end, a number above 0 means
        a truncated stream.
        """
        return self._leftover

    def feed(self, data: bytes) -> None:
        self._buffer.add_data(data)
        self._leftover += len(data)

    def next(self) -> Frame | None:
        """Return the next complete frame, or None if more data is needed.

        Raises:
            ReplyBroken: if a checksum or a length is wrong.
        """
        try:
            message = next(self._buffer, None)
        except self._errors as error:
            raise ReplyBroken("Bedrock's event stream contains a corrupt frame") from error
        if message is None:
            return None
        self._leftover -= message.prelude.total_length
        return Frame(message.headers, message.payload)
