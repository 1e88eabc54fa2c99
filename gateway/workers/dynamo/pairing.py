"""Finds out which stream on a host belongs to which worker, where several Dynamo workers share the host.

A frontend reports where a worker's process is, not where its engine publishes. So each worker gets a tiny completion of
new tokens, pinned to it, and the stream that publishes these tokens is its own.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import httpx
import msgspec

from gateway.workers.kv_events.sockets import subscription
from gateway.workers.kv_events.sources import host_of, reachable
from gateway.workers.kv_events.zmtp import ReadProgress
from gateway.workers.worker_place import WorkerPlace
from gateway.workers.worker_spec import EventsSpec

PATH = "/v1/completions"
TOKENS = 256
"""Tokens of a question: several blocks of any usual size."""
MIN_TOKENS = 8
"""Tokens that have to match; they do not by chance."""
TOKEN_IDS = range(100, 1000)
"""Ids that every vocabulary has, as text."""


class Pairing:
    """Asks over HTTP and listens over ZeroMQ. *rng* chooses tokens that were not asked before."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        rng: random.Random,
        settle_s: float = 0.3,
        heard_s: float = 3.0,
        timeout_s: float = 10.0,
    ) -> None:
        """A subscription is in force after *settle_s*, and events arrive within *heard_s*."""
        self._client = client
        self._rng = rng
        self._settle_s = settle_s
        self._heard_s = heard_s
        self._timeout_s = timeout_s
        self._news = asyncio.Event()
        """Set when a stream was found."""

    async def owners(
        self,
        url: str,
        headers: Mapping[str, str],
        model: str,
        instances: Sequence[str],
        streams: Sequence[EventsSpec],
    ) -> dict[str, EventsSpec]:
        """Return the streams that were found, by the *instances* behind the frontend at *url*.

        *model* is the name that the frontend knows. All are asked side by side: *timeout_s* and *heard_s* at most.
        """
        questions = {each: [self._rng.choice(TOKEN_IDS) for _ in range(TOKENS)] for each in instances}
        found: dict[str, EventsSpec] = {}
        async with asyncio.TaskGroup() as tasks:
            at = {each: reachable(each.endpoint or "", host=host_of(url)) for each in streams}
            listening = [
                tasks.create_task(self._listen(each, endpoint, questions, found))
                for each, endpoint in at.items()
                if endpoint is not None
            ]
            await asyncio.sleep(self._settle_s)
            asking = [self._ask(url, headers, model, each, tokens) for each, tokens in questions.items()]
            await asyncio.gather(*asking)
            await self._hear(questions, found)
            for task in listening:
                task.cancel()
        return found

    async def _ask(self, url: str, headers: Mapping[str, str], model: str, instance: str, tokens: list[int]) -> None:
        """Send the question. The answer does not matter: the stream shows the tokens."""
        pinned = {name.decode(): value.decode() for name, value in WorkerPlace(0, instance).headers}
        body = {"model": model, "prompt": tokens, "max_tokens": 1}
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._client.post(url + PATH, json=body, headers={**headers, **pinned}, timeout=None)
        except (httpx.HTTPError, TimeoutError):
            return

    async def _hear(self, questions: Mapping[str, list[int]], found: Mapping[str, EventsSpec]) -> None:
        """Wait until all streams were found, for *heard_s* at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._heard_s):
                while len(found) < len(questions):
                    self._news.clear()
                    await self._news.wait()

    async def _listen(
        self,
        stream: EventsSpec,
        endpoint: str,
        questions: Mapping[str, list[int]],
        found: dict[str, EventsSpec],
    ) -> None:
        async with subscription(endpoint, topic=stream.topic) as opened:
            while True:
                await opened.ready()
                while (step := opened.read()) is not ReadProgress.IDLE:
                    for run in token_runs(step[-1]) if isinstance(step, list) else ():
                        for instance, tokens in questions.items():
                            if len(run) >= MIN_TOKENS and run[:TOKENS] == tokens[: len(run)]:
                                found[instance] = stream
                                self._news.set()
                    await asyncio.sleep(0)


def token_runs(payload: bytes) -> Iterator[list[int]]:
    """Yield the tokens of each event of a batch, in either form: maps, or arrays with their tag in front."""
    try:
        batch = msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    events = batch[1] if isinstance(batch, list) and len(batch) > 1 and isinstance(batch[1], list) else []
    for event in events:
        tokens = event.get("token_ids") if isinstance(event, dict) else None
        if isinstance(event, list) and len(event) > 3:
            tokens = event[3]
        if isinstance(tokens, list):
            yield tokens
