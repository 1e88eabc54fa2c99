"""Match KV event streams with Dynamo workers, for cases in which several workers share a host.

A frontend reports the host of a worker, but not where its engine publishes. So each worker gets a tiny completion
request with random tokens. The stream that publishes these tokens belongs to this worker.
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
"""Number of random tokens in a pairing request. The tokens fill several blocks of any usual size."""
MIN_TOKENS = 8
"""Number of tokens that must match to pair a stream with a worker. Fewer tokens could match by chance."""
TOKEN_IDS = range(100, 1000)
"""Token ids that represent ordinary text in every vocabulary."""


class Pairing:
    """Pairing of Dynamo workers with event streams, by HTTP requests and ZeroMQ subscriptions. *rng* chooses tokens."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        rng: random.Random,
        settle_s: float = 0.3,
        heard_s: float = 3.0,
        timeout_s: float = 10.0,
    ) -> None:
        """Create the pairing. Subscriptions are active after *settle_s*. Events follow a request within *heard_s*."""
        self._client = client
        self._rng = rng
        self._settle_s = settle_s
        self._heard_s = heard_s
        self._timeout_s = timeout_s
        self._news = asyncio.Event()
        """Event that is set when a stream was matched with a worker."""

    async def owners(
        self,
        url: str,
        headers: Mapping[str, str],
        model: str,
        instances: Sequence[str],
        streams: Sequence[EventsSpec],
    ) -> dict[str, EventsSpec]:
        """Return the event stream of each worker in *instances* for which a match was found, by instance id.

        *url* is the address of the frontend, and *model* is the model name that the frontend knows. All workers are
        tested concurrently, which takes at most *timeout_s* plus *heard_s*.
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
        """Send the pairing request to *instance*. The response is ignored, because the tokens appear in the event
        stream.
        """
        pinned = {name.decode(): value.decode() for name, value in WorkerPlace(0, instance).headers}
        body = {"model": model, "prompt": tokens, "max_tokens": 1}
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._client.post(url + PATH, json=body, headers={**headers, **pinned}, timeout=None)
        except (httpx.HTTPError, TimeoutError):
            return

    async def _hear(self, questions: Mapping[str, list[int]], found: Mapping[str, EventsSpec]) -> None:
        """Wait until every worker is matched with a stream, but at most *heard_s* seconds."""
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
    """Yield the token ids of each event in a batch. Events can be encoded as maps or as tagged arrays."""
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
