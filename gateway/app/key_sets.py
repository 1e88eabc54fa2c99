"""Reading of the key sets of issuers over HTTP (OpenID Connect Discovery 1.0, section 4)."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

import httpx
import msgspec

from gateway.app.identity_rules import KeySource
from gateway.backends.http_client import HttpClient
from gateway.backends.upstream.tls import accepting_missing_identifiers
from gateway.protocol.errors import DECODE_ERRORS
from gateway.tenancy.identity.signing_keys import KeysUnreadableError

TIMEOUT_S: Final = 5.0
"""Maximum seconds for one document."""
MOST_BYTES: Final = 1_048_576
"""Maximum size of one document."""
DISCOVERY: Final = "/.well-known/openid-configuration"


class _Discovery(msgspec.Struct):
    issuer: str
    jwks_uri: str


class KeySetReader:
    """Reader of the key set at *source*. Implements the *read* function of `SigningKeys`."""

    def __init__(self, source: KeySource) -> None:
        self._source = source

    async def __call__(self) -> bytes:
        """Return the JSON Web Key Set of the issuer. Takes one request, or two if the address must be discovered.

        Raises:
            KeysUnreadableError: if a document cannot be read, or the discovery document is not that of the issuer.
        """
        async with await issuer_client(self._source, with_token=True) as client:
            return await document_at(client, self._source.url or await self._discovered(client))

    async def _discovered(self, client: httpx.AsyncClient) -> str:
        document = await document_at(client, self._source.issuer.rstrip("/") + DISCOVERY)
        try:
            found = msgspec.json.decode(document, type=_Discovery)
        except DECODE_ERRORS:
            raise KeysUnreadableError("the discovery document is not valid") from None
        if found.issuer != self._source.issuer:
            raise KeysUnreadableError("the discovery document belongs to another issuer")
        is_encrypted = found.jwks_uri.startswith("https://")
        if not is_encrypted and self._source.issuer.startswith("https://"):
            raise KeysUnreadableError("the discovery document names an address without encryption")
        return found.jwks_uri


async def issuer_client(source: KeySource, *, with_token: bool) -> HttpClient:
    """Return a client for the issuer at *source*. With *with_token*, it sends the token in `KeySource.token_file`.

    Raises:
        KeysUnreadableError: if a file cannot be used.
    """
    try:
        headers, verify = await asyncio.to_thread(_credentials, source, with_token=with_token)
    except (OSError, ValueError) as fault:
        raise KeysUnreadableError(f"a file cannot be used: {type(fault).__name__}") from None
    return HttpClient(headers=headers, verify=verify, follow_redirects=False)


def _credentials(source: KeySource, *, with_token: bool) -> tuple[Mapping[str, str], ssl.SSLContext | bool]:
    headers = {"accept": "application/json", "user-agent": "warmgate"}
    if with_token and source.token_file is not None:
        headers["authorization"] = f"Bearer {source.token_file.read_text(encoding='ascii').strip()}"
    address = source.url if with_token and source.url is not None else source.issuer
    if not address.startswith("https://"):
        return headers, False
    context = (
        httpx.create_ssl_context() if source.ca_file is None else ssl.create_default_context(cafile=str(source.ca_file))
    )
    return headers, accepting_missing_identifiers(context)


async def document_at(client: httpx.AsyncClient, url: str) -> bytes:
    """Return the document at *url*, which has at most `MOST_BYTES`.

    Raises:
        KeysUnreadableError: if the document cannot be read.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S), client.stream("GET", url) as response:
            if response.status_code != httpx.codes.OK:
                raise KeysUnreadableError(f"the issuer answered with status {response.status_code}")
            document = bytearray()
            async for piece in response.aiter_bytes():
                document += piece
                if len(document) > MOST_BYTES:
                    raise KeysUnreadableError(f"the document has more than {MOST_BYTES:,} bytes")
            return bytes(document)
    except TimeoutError:
        raise KeysUnreadableError(f"the issuer did not answer within {TIMEOUT_S:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        raise KeysUnreadableError(f"the issuer cannot be reached: {type(fault).__name__}") from None
