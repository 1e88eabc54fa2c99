"""Reader of a worker's engine metrics that detects which engine it is and which pages it offers."""

from dataclasses import replace

from gateway.backends.engine_metrics import EngineKind, EngineReading, MetricsPage
from gateway.backends.probe import WorkerProbe
from gateway.backends.sglang_loads import CacheRoom, parse_loads, parse_server_info

METRICS_BYTES = 8 * 2**20
"""Maximum size of a metrics page in bytes. 64 ranks of vLLM produce 5 MB, which is parsed in pieces."""
JSON_BYTES = 2**20


class EngineWatch:
    """Reader of the state of one worker's engine.

    ``/metrics`` is read first. Every engine has it, although SGLang only if it is enabled at startup. If it contains no
    engine metrics, SGLang's ``/v1/loads`` is read instead, and from then on exclusively as long as it succeeds.
    """

    def __init__(self, probe: WorkerProbe) -> None:
        self._probe = probe
        self._reads_loads = False
        self._room: CacheRoom | None = None

    def forget(self) -> None:
        """Discard the known facts about the engine's pages, because another engine might run at this address next."""
        self._reads_loads = False
        self._room = None

    async def read(self) -> EngineReading | None:
        """Return a reading of the metrics, or None if no page with engine metrics arrived in time.

        This takes at most three requests, each limited by the probe's timeout.
        """
        reading = None if self._reads_loads else await self._read_metrics()
        if reading is None:
            reading = await self._read_loads()
            self._reads_loads = reading is not None
        if reading is None or reading.engine is not EngineKind.SGLANG:
            return reading
        return await self._with_room(reading)

    async def _read_metrics(self) -> EngineReading | None:
        page = MetricsPage()
        return page.reading() if await self._probe.feed("/metrics", page.feed, max_bytes=METRICS_BYTES) else None

    async def _read_loads(self) -> EngineReading | None:
        body = await self._probe.body("/v1/loads?include=core", max_bytes=JSON_BYTES)
        return None if body is None else parse_loads(body)

    async def _with_room(self, reading: EngineReading) -> EngineReading:
        """Return *reading* with SGLang's cache size from ``/server_info``, a long response that is read only once."""
        if reading.cache_tokens is not None and reading.block_size is not None:
            return reading
        if self._room is None:
            body = await self._probe.body("/server_info", max_bytes=JSON_BYTES)
            self._room = CacheRoom() if body is None else parse_server_info(body)
        room = self._room
        return replace(
            _filled(reading, room.cache_tokens, room.block_size),
            places={place: _filled(own, room.of_rank_tokens, room.block_size) for place, own in reading.places.items()},
        )


def _filled(reading: EngineReading, cache_tokens: int | None, block_size: int | None) -> EngineReading:
    return replace(
        reading,
        cache_tokens=reading.cache_tokens or cache_tokens,
        block_size=reading.block_size or block_size,
    )
