"""Query one address for the workers behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Protocol

import msgspec

from gateway.backends.client import WorkerClient
from gateway.backends.engine_metrics import EngineKind, MetricsPage
from gateway.backends.engine_watch import JSON_BYTES, METRICS_BYTES
from gateway.backends.probe import WorkerProbe
from gateway.workers.dynamo.frontend import instances_in
from gateway.workers.shared_address.address_report import AddressReport, Instance
from gateway.workers.worker_spec import DynamoSpec, EventsSpec

MAX_RANKS = 1024
RARELY = 15
"""Number of queries to a frontend between two attempts to match event streams with workers."""


class _ServerInfo(msgspec.Struct):
    """Response of SGLang's ``/server_info``."""

    dp_size: Annotated[int, msgspec.Meta(ge=1, le=MAX_RANKS)] | None = None


class Pairs(Protocol):
    """Interface for matching event streams with workers; see `gateway.workers.dynamo.pairing.Pairing`."""

    async def owners(
        self,
        url: str,
        headers: Mapping[str, str],
        model: str,
        instances: Sequence[str],
        streams: Sequence[EventsSpec],
    ) -> dict[str, EventsSpec]: ...


@dataclass(slots=True)
class _Paired:
    """Event streams of the workers behind one frontend, and the workers without a known stream."""

    streams: dict[str, EventsSpec]
    missed: frozenset[str] = frozenset()
    since: int = 0
    """Number of queries since event streams were last matched with workers."""


class AddressProbe:
    """Query of addresses over HTTP. An engine gets at most two requests and a frontend one, each with the timeout
    *timeout_s*.

    *pairing* matches the streams in `dynamo.streams` with workers when new workers appear.
    """

    def __init__(self, client: WorkerClient, pairing: Pairs, *, timeout_s: float) -> None:
        self._client = client
        self._pairing = pairing
        self._timeout_s = timeout_s
        self._paired: dict[tuple[str, str], _Paired] = {}

    async def ask(
        self, url: str, headers: Mapping[str, str], dynamo: DynamoSpec | None, model: str
    ) -> AddressReport | None:
        """Return the workers behind the address *url*, or None if the response is missing or malformed.

        If *dynamo* is given, the address is that of a Dynamo frontend. *model* is the model name that the workers use.
        """
        probe = WorkerProbe(self._client, url, timeout_s=self._timeout_s, headers=headers)
        if dynamo is None:
            ranks = await self._ranks(probe)
            return None if ranks is None else AddressReport(ranks=ranks)
        body = await probe.body("/health", max_bytes=JSON_BYTES)
        if body is None:
            return None
        instances = instances_in(body, namespace=dynamo.namespace, component=dynamo.component)
        if instances is None:
            return None
        return AddressReport(instances=await self._with_streams(url, headers, dynamo, model, instances))

    async def _with_streams(
        self,
        url: str,
        headers: Mapping[str, str],
        dynamo: DynamoSpec,
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

    async def _ranks(self, probe: WorkerProbe) -> int | None:
        """Return the number of data-parallel ranks of an engine, or None if it is unknown.

        vLLM's metrics have labels for all ranks from the start, and SGLang reports the number in a field. A vLLM server
        with one process per rank shows one rank and counts as one worker.
        """
        page = MetricsPage()
        reading = page.reading() if await probe.feed("/metrics", page.feed, max_bytes=METRICS_BYTES) else None
        if reading is not None and reading.engine is EngineKind.VLLM:
            return max(1, len(reading.places))
        body = await probe.body("/server_info", max_bytes=JSON_BYTES)
        ranks = None if body is None else _dp_size(body)
        if ranks is None and reading is not None and reading.engine is EngineKind.SGLANG:
            return max(1, len(reading.places))
        return ranks


def _dp_size(body: bytes) -> int | None:
    try:
        return msgspec.json.decode(body, type=_ServerInfo).dp_size
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
