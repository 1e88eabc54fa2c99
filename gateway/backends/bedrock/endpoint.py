"""HTTP access to Bedrock in one region, with signed requests and with HTTP errors translated to the gateway's."""

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
    """Interface for adding the gateway's credentials to requests."""

    async def sign(self, *, url: str, headers: dict[str, str], body: bytes) -> dict[str, str]:
        """Return *headers* with the headers that authenticate the request added.

        Raises:
            ConnectFailed: if no credentials are available.
        """
        ...

    def forget_credentials(self) -> None:
        """Discard cached credentials, so that the next request loads the credentials again."""
        ...


@dataclass(frozen=True, slots=True)
class BedrockTimeouts:
    """Time limits for Bedrock calls, in seconds. Some are long, because models can reason silently for minutes."""

    connect_s: float = 5.0
    first_event_s: float = 60.0
    """Seconds from the start of a streamed call to its first text."""
    idle_s: float = 300.0
    """Longest pause in seconds between two reads of a stream after its first text."""
    metadata_s: float = 2.0
    """Seconds to wait for the usage after the last text of a stream. Bedrock does not always send the usage."""
    whole_answer_s: float = 600.0
    """Maximum seconds for a call whose response is not streamed, from start to end."""


class BedrockEndpoint:
    """HTTP endpoint of Bedrock in one AWS region."""

    def __init__(
        self,
        *,
        region: str,
        client: httpx.AsyncClient,
        signer: Signer,
        endpoint_url: str | None,
        timeouts: BedrockTimeouts,
    ) -> None:
        """Create an endpoint for *region*, or for *endpoint_url* if one is given.

        Raises:
            ValueError: if *region* or *endpoint_url* does not form a valid address.
        """
        self._base = _origin(region, endpoint_url)
        self._client = client
        self._signer = signer
        self._timeout = httpx.Timeout(
            connect=timeouts.connect_s, pool=timeouts.connect_s, write=timeouts.first_event_s, read=None
        )

    async def post(self, path: str, payload: dict[str, Any]) -> httpx.Response:
        """Send *payload* to *path* and return the response with status and headers. The caller reads and closes it.

        *path* must be percent-encoded once, as it is sent.

        Raises:
            ConnectFailed: if nothing was sent.
            UpstreamTimeout: with phase ``connect``, or ``first_byte`` if sending the body takes too long.
            ReplyBroken: if the connection breaks before the response headers arrive.
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
    """Return *model_id* (a model id, inference profile or ARN) percent-encoded as one segment of a URL path.

    The ``/`` in an ARN must be encoded, or Bedrock would not find the model.

    Raises:
        ValueError: if *model_id* is empty or already percent-encoded.
    """
    if not model_id or "%" in model_id:
        raise ValueError(f"Bedrock model id {model_id!r} is empty or percent-encoded. Write it as AWS shows it")
    return quote(model_id, safe="")


def _origin(region: str, endpoint_url: str | None) -> str:
    if endpoint_url is None:
        if not re.fullmatch(r"[a-z0-9-]+", region):
            raise ValueError(f"Bedrock region {region!r} is not a valid AWS region name, such as us-east-1")
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return f"https://bedrock-runtime.{region}.{suffix}"
    parts = urlsplit(endpoint_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ValueError("The Bedrock endpoint URL must use http or https and contain only host, port and path")
    return endpoint_url.rstrip("/")


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Translate httpx exceptions in the ``with`` block into the gateway's own exceptions."""
    try:
        yield
    except (httpx.ConnectError, httpx.ProxyError) as error:
        raise ConnectFailed("The gateway could not connect to Bedrock") from error
    except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        raise UpstreamTimeout("Connecting to Bedrock timed out", phase="connect") from error
    except httpx.TimeoutException as error:
        raise UpstreamTimeout("Sending the request to Bedrock timed out", phase="first_byte") from error
    except httpx.RequestError as error:
        raise ReplyBroken("The connection to Bedrock was lost") from error


@contextlib.asynccontextmanager
async def deadline(limit_s: float | None, *, phase: Literal["first_byte", "idle"]) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the ``async with`` block after *limit_s* seconds, or never if *limit_s* is None. The block can move the
    deadline.

    Raises:
        UpstreamTimeout: with the given *phase*, if the deadline passes.
    """
    try:
        async with asyncio.timeout(limit_s) as timeout:
            yield timeout
    except TimeoutError as error:
        raise UpstreamTimeout("Bedrock sent no data within the time limit", phase=phase) from error
