"""Asks one address who stands behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Protocol

import msgspec

from gateway.backends.client import WorkerClient
from gateway.dynamo.frontend import instances_in
from gateway.engine_metrics import Engine, MetricsPage
from gateway.engine_watch import JSON_BYTES, METRICS_BYTES
from gateway.probe import Probe
from gateway.ranks.population import Instance, Population
from gateway.settings import DynamoSettings, WorkerEventsSettings

MOST_RANKS = 1024
RARELY = 15
"""Questions to a frontend after which it is tried again whose a stream is, where that could not be found out."""


class _ServerInfo(msgspec.Struct):
    """Of SGLang's ``/server_info``."""

    dp_size: Annotated[int, msgspec.Meta(ge=1, le=MOST_RANKS)] | None = None


class Pairs(Protocol):
    """See `gateway.dynamo.pairing.Pairing`."""

    async def owners(
        self,
        url: str,
        headers: Mapping[str, str],
        model: str,
        instances: Sequence[str],
        streams: Sequence[WorkerEventsSettings],
    ) -> dict[str, WorkerEventsSettings]: ...


@dataclass(slots=True)
class _Paired:
    """Of one frontend: whose stream is known, and for whom it was looked for in vain."""

    streams: dict[str, WorkerEventsSettings]
    missed: frozenset[str] = frozenset()
    since: int = 0
    """Questions since then."""


class Inquiry:
    """Over HTTP; each question takes *timeout_s* at most. Two questions at most to an engine, one to a frontend.

    *pairing* finds out whose `dynamo.streams` are, when somebody is new.
    """

    def __init__(self, client: WorkerClient, pairing: Pairs, *, timeout_s: float) -> None:
        self._client = client
        self._pairing = pairing
        self._timeout_s = timeout_s
        self._paired: dict[tuple[str, str], _Paired] = {}

    async def ask(
        self, url: str, headers: Mapping[str, str], dynamo: DynamoSettings | None, model: str
    ) -> Population | None:
        """None: nobody answered, or not so that it could be understood. With *dynamo* it is a frontend.

        *model* is what the workers of interest are called with.
        """
        probe = Probe(self._client, url, timeout_s=self._timeout_s, headers=headers)
        if dynamo is None:
            ranks = await self._ranks(probe)
            return None if ranks is None else Population(ranks=ranks)
        body = await probe.body("/health", max_bytes=JSON_BYTES)
        if body is None:
            return None
        instances = instances_in(body, namespace=dynamo.namespace, component=dynamo.component)
        if instances is None:
            return None
        return Population(instances=await self._with_streams(url, headers, dynamo, model, instances))

    async def _with_streams(
        self,
        url: str,
        headers: Mapping[str, str],
        dynamo: DynamoSettings,
        model: str,
        instances: tuple[Instance, ...],
    ) -> tuple[Instance, ...]:
        if not dynamo.streams:
            return instances
        paired = self._paired.setdefault((url, model), _Paired({}))
        there = {each.id for each in instances}
        paired.streams = {
            each: stream for each, stream in paired.streams.items() if each in there and stream in dynamo.streams
        }
        missing = frozenset(there - paired.streams.keys())
        free = [stream for stream in dynamo.streams if stream not in paired.streams.values()]
        paired.since += 1
        if missing and free and (missing != paired.missed or paired.since >= RARELY):
            paired.missed, paired.since = missing, 0
            paired.streams |= await self._pairing.owners(url, headers, model, sorted(missing), free)
        return tuple(replace(each, stream=paired.streams.get(each.id)) for each in instances)

    async def _ranks(self, probe: Probe) -> int | None:
        """By the labels of its metrics: vLLM has those of all ranks from the start on. SGLang says the number.

        vLLM with a process for each rank shows one of them, and is one worker.
        """
        page = MetricsPage()
        reading = page.reading() if await probe.feed("/metrics", page.feed, max_bytes=METRICS_BYTES) else None
        if reading is not None and reading.engine is Engine.VLLM:
            return max(1, len(reading.places))
        body = await probe.body("/server_info", max_bytes=JSON_BYTES)
        told = None if body is None else _dp_size(body)
        if told is None and reading is not None and reading.engine is Engine.SGLANG:
            return max(1, len(reading.places))
        return told


def _dp_size(body: bytes) -> int | None:
    try:
        return msgspec.json.decode(body, type=_ServerInfo).dp_size
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
