"""The address of Bedrock in one region: signed requests out over the shared HTTP client, its failures in our words."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from gateway.protocol.errors import ConnectFailed, ReplyBroken, UpstreamTimeout


class Signer(Protocol):
    """Puts the gateway's identity on a request."""

    async def sign(self, *, url: str, headers: dict[str, str], body: bytes) -> dict[str, str]:
        """*headers* with the signature's own added.

        Raises:
            ConnectFailed: there are no credentials.
        """
        ...

    def forget_credentials(self) -> None:
        """Fetch credentials afresh for the next request."""
        ...


@dataclass(frozen=True, slots=True)
class BedrockTimeouts:
    """Timeouts for Bedrock. Models may reason silently for minutes, so some are long."""

    connect_s: float = 5.0
    first_event_s: float = 60.0
    """Time of a stream from the start of the call to the first text."""
    idle_s: float = 300.0
    """Time of a stream between two network reads after that."""
    metadata_s: float = 2.0
    """Time of a stream from the end of the text to the usage, which Bedrock does not always send."""
    whole_answer_s: float = 600.0
    """Time of a call that does not stream, from its start to its end."""


class BedrockEndpoint:
    """Address of the models of one region."""

    def __init__(
        self,
        *,
        region: str,
        client: httpx.AsyncClient,
        signer: Signer,
        endpoint_url: str | None,
        timeouts: BedrockTimeouts,
    ) -> None:
        """*endpoint_url* takes the place of the region's own address.

        Raises:
            ValueError: *region* or *endpoint_url* cannot make an address.
        """
        self._base = _origin(region, endpoint_url)
        self._client = client
        self._signer = signer
        self._timeout = httpx.Timeout(
            connect=timeouts.connect_s, pool=timeouts.connect_s, write=timeouts.first_event_s, read=None
        )

    async def post(self, path: str, payload: dict[str, Any]) -> httpx.Response:
        """The answer's status and headers; the body is still to be read, and the response to be closed.

        *path* is percent-encoded once, as it goes on the wire.

        Raises:
            ConnectFailed: nothing was sent.
            UpstreamTimeout: ``connect`` or, while the body was going out, ``first_byte``.
            ReplyBroken: the connection broke before an answer.
        """
        url, body = f"{self._base}{path}", msgspec.json.encode(payload)
        headers = await self._signer.sign(url=url, headers={"content-type": "application/json"}, body=body)
        headers["accept-encoding"] = "identity"  # an event is to be read when it comes, not when a block is full
        request = self._client.build_request("POST", url, headers=headers, content=body, timeout=self._timeout)
        with translated_errors():
            return await self._client.send(request, stream=True, follow_redirects=False)

    def forget_credentials(self) -> None:
        self._signer.forget_credentials()


def model_segment(model_id: str) -> str:
    """*model_id* (a model id, an inference profile or an ARN, not percent-encoded) as one segment of a path.

    Encoded once; a raw ``/`` of an ARN would hit no route.

    Raises:
        ValueError: it cannot be one.
    """
    if not model_id or "%" in model_id:
        raise ValueError(f"Bedrock model id {model_id!r} must be given as AWS shows it, without percent-encoding")
    return quote(model_id, safe="")


def _origin(region: str, endpoint_url: str | None) -> str:
    if endpoint_url is None:
        if not re.fullmatch(r"[a-z0-9-]+", region):
            raise ValueError(f"Bedrock region {region!r} is not the name of an AWS region")
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return f"https://bedrock-runtime.{region}.{suffix}"
    parts = urlsplit(endpoint_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ValueError("the Bedrock endpoint must be an http or https URL of host, port and path only")
    return endpoint_url.rstrip("/")


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Raise the errors of httpx as the gateway's."""
    try:
        yield
    except (httpx.ConnectError, httpx.ProxyError) as error:
        raise ConnectFailed("Bedrock could not be reached") from error
    except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        raise UpstreamTimeout("the connection to Bedrock timed out", phase="connect") from error
    except httpx.TimeoutException as error:
        raise UpstreamTimeout("sending the request to Bedrock timed out", phase="first_byte") from error
    except httpx.RequestError as error:
        raise ReplyBroken("the connection to Bedrock broke") from error


@contextlib.asynccontextmanager
async def deadline(limit_s: float | None, *, phase: Literal["first_byte", "idle"]) -> AsyncIterator[asyncio.Timeout]:
    """Cancel what is inside after *limit_s*; None is for ever. What is inside may put it off, or bring it forward.

    Raises:
        UpstreamTimeout: of that *phase*.
    """
    try:
        async with asyncio.timeout(limit_s) as timeout:
            yield timeout
    except TimeoutError as error:
        raise UpstreamTimeout("Bedrock was silent for too long", phase=phase) from error
