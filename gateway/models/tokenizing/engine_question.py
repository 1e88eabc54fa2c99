"""HTTP requests that ask engines for tokens, with limits on time and size. Failing engines are skipped for a while."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import httpx
import msgspec

from gateway.models.tokenizing.exactness import Unknowable

MAX_BYTES = 32 * 2**20
"""Maximum size of an engine's answer in bytes. A million tokens take 8 MB of JSON."""

_NOT_OFFERED = frozenset({401, 403, 404, 405, 501})
"""HTTP statuses of engines without the requested route. vLLM answers 403 if the flag for the route is not set."""


class EngineAddress(msgspec.Struct, frozen=True):
    url: str
    headers: Mapping[str, str] = {}


class EngineQuestion:
    """Client that sends POST requests to *path* on the engines at *addresses*, one engine after another.

    An engine without *path* is skipped for *rest_s* seconds. An engine that cannot be reached, or is too slow, is
    skipped for *pause_s* seconds. *clock* returns monotonic seconds.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        addresses: Callable[[], Sequence[EngineAddress]],
        *,
        timeout_s: float,
        clock: Callable[[], float],
        rest_s: float = 300.0,
        pause_s: float = 5.0,
    ) -> None:
        self._client = client
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._clock = clock
        self._rest_s = rest_s
        self._pause_s = pause_s
        self._asked = 0
        self._not_before: dict[tuple[str, str], float] = {}

    async def ask(self, path: str, body: bytes) -> bytes:
        """Return the body of an engine's successful answer to the request body *body*.

        Raises:
            Unknowable: with the reason "unavailable" if no engine currently offers *path*, "slow" after *timeout_s*, or
                "engine" if the engine refuses *body*.
        """
        address = self._next(path)
        try:
            async with asyncio.timeout(self._timeout_s):
                status, answer = await self._post(address, path, body)
        except TimeoutError:
            self._leave(address, path, self._pause_s)
            raise Unknowable("slow") from None
        except httpx.HTTPError:
            self._leave(address, path, self._pause_s)
            raise Unknowable("unavailable") from None
        if status in _NOT_OFFERED:
            self._leave(address, path, self._rest_s)
            raise Unknowable("unavailable")
        if status != 200 or len(answer) > MAX_BYTES:
            raise Unknowable("engine")
        return answer

    def _next(self, path: str) -> EngineAddress:
        now = self._clock()
        self._not_before = {key: until for key, until in self._not_before.items() if until > now}
        offered = [address for address in self._addresses() if (address.url, path) not in self._not_before]
        if not offered:
            raise Unknowable("unavailable")
        self._asked += 1
        return offered[self._asked % len(offered)]

    def _leave(self, address: EngineAddress, path: str, rest_s: float) -> None:
        self._not_before[address.url, path] = self._clock() + rest_s

    async def _post(self, address: EngineAddress, path: str, body: bytes) -> tuple[int, bytes]:
        # What was packed small could be of any size.
        headers = {"content-type": "application/json", "accept-encoding": "identity", **address.headers}
        answer = bytearray()
        async with self._client.stream(
            "POST", address.url + path, content=body, headers=headers, timeout=None
        ) as response:
            if response.status_code == 200:
                async for piece in response.aiter_raw():
                    answer += piece
                    if len(answer) > MAX_BYTES:
                        break
            return response.status_code, bytes(answer)
