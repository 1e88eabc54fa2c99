"""Finds out which of the streams on a host is whose, where several workers of Dynamo's share it.

A frontend tells where a worker's process is, not where its engine publishes. So each worker is asked a tiny completion
of tokens that nobody ever asked, pinned to it, and the stream that tells of these tokens is its own.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import httpx
import msgspec

from gateway.kv_events.sockets import subscription
from gateway.kv_events.sources import host_of, reachable
from gateway.kv_events.zmtp import Progress
from gateway.ranks.place import Place
from gateway.settings import WorkerEventsSettings

PATH = "/v1/completions"
TOKENS = 256
"""Of a question: several blocks of any usual size."""
LEAST_TOKENS = 8
"""That have to be the same; by chance they are not."""
TOKEN_IDS = range(100, 1000)
"""That every vocabulary has, as text."""


class Pairing:
    """Asks over HTTP and listens over ZeroMQ. *rng* makes questions that were never asked before."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        rng: random.Random,
        settle_s: float = 0.3,
        heard_s: float = 3.0,
        timeout_s: float = 10.0,
    ) -> None:
        """A subscription is in force after *settle_s*; what is published is heard within *heard_s*."""
        self._client = client
        self._rng = rng
        self._settle_s = settle_s
        self._heard_s = heard_s
        self._timeout_s = timeout_s
        self._news = asyncio.Event()
        """A stream was found."""

    async def owners(
        self,
        url: str,
        headers: Mapping[str, str],
        model: str,
        instances: Sequence[str],
        streams: Sequence[WorkerEventsSettings],
    ) -> dict[str, WorkerEventsSettings]:
        """Of *instances* behind the frontend at *url*, those whose stream was found, with it.

        *model* is the name that the frontend knows. All are asked side by side: *timeout_s* and *heard_s* at most.
        """
        questions = {each: [self._rng.choice(TOKEN_IDS) for _ in range(TOKENS)] for each in instances}
        found: dict[str, WorkerEventsSettings] = {}
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
        """Whatever is answered: its stream tells."""
        pinned = {name.decode(): value.decode() for name, value in Place(0, instance).headers}
        body = {"model": model, "prompt": tokens, "max_tokens": 1}
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._client.post(url + PATH, json=body, headers={**headers, **pinned}, timeout=None)
        except (httpx.HTTPError, TimeoutError):
            return

    async def _hear(self, questions: Mapping[str, list[int]], found: Mapping[str, WorkerEventsSettings]) -> None:
        """Until all streams were found, or it has been long enough."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._heard_s):
                while len(found) < len(questions):
                    self._news.clear()
                    await self._news.wait()

    async def _listen(
        self,
        stream: WorkerEventsSettings,
        endpoint: str,
        questions: Mapping[str, list[int]],
        found: dict[str, WorkerEventsSettings],
    ) -> None:
        async with subscription(endpoint, topic=stream.topic) as opened:
            while True:
                await opened.ready()
                while (step := opened.read()) is not Progress.IDLE:
                    for told in token_runs(step[-1]) if isinstance(step, list) else ():
                        for instance, tokens in questions.items():
                            if len(told) >= LEAST_TOKENS and told[:TOKENS] == tokens[: len(told)]:
                                found[instance] = stream
                                self._news.set()
                    await asyncio.sleep(0)


def token_runs(payload: bytes) -> Iterator[list[int]]:
    """The tokens of each event of a batch, in either spelling: maps, or arrays with their tag in front."""
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
