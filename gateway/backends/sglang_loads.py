"""Parser for SGLang's JSON pages ``/v1/loads`` and ``/server_info``, used if the ``/metrics`` page is disabled."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from gateway.backends.engine_metrics import EngineKind, EngineReading

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Share = Annotated[float, msgspec.Meta(ge=0)]


class _Load(msgspec.Struct):
    """Load of one data-parallel rank, with the same field names as SGLang's ``LoadSnapshot``."""

    num_running_reqs: _Count
    num_waiting_reqs: _Count
    token_usage: _Share | None = None
    max_total_num_tokens: _Count | None = None
    dp_rank: _Count = 0


class _Loads(msgspec.Struct):
    loads: Annotated[list[_Load], msgspec.Meta(min_length=1, max_length=1024)]


class _ServerInfo(msgspec.Struct):
    max_total_num_tokens: _Count | None = None
    page_size: _Count | None = None
    dp_size: _Count | None = None


@dataclass(frozen=True, slots=True)
class CacheRoom:
    """Total size of the KV cache over all ranks. Values that are not reported are None."""

    cache_tokens: int | None = None
    block_size: int | None = None
    """Number of tokens per cache page."""
    of_rank_tokens: int | None = None
    """KV cache size of one rank in tokens."""


def parse_loads(body: bytes) -> EngineReading | None:
    """Parse the response to ``GET /v1/loads``. Return None if the response is not from SGLang."""
    try:
        loads = msgspec.json.decode(body, type=_Loads).loads
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    shares = [load.token_usage for load in loads if load.token_usage is not None]
    return EngineReading(
        EngineKind.SGLANG,
        running=float(sum(load.num_running_reqs for load in loads)),
        waiting=float(sum(load.num_waiting_reqs for load in loads)),
        kv_usage=min(1.0, sum(shares) / len(shares)) if shares else None,
        cache_tokens=sum(load.max_total_num_tokens or 0 for load in loads) or None,
        places={(None, load.dp_rank): _of_rank(load) for load in loads} if len(loads) > 1 else {},
    )


def _of_rank(load: _Load) -> EngineReading:
    return EngineReading(
        EngineKind.SGLANG,
        running=float(load.num_running_reqs),
        waiting=float(load.num_waiting_reqs),
        kv_usage=None if load.token_usage is None else min(1.0, load.token_usage),
        cache_tokens=load.max_total_num_tokens or None,
    )


def parse_server_info(body: bytes) -> CacheRoom:
    """Parse the cache size in the response to ``GET /server_info``, whose ``max_total_num_tokens`` is for one rank."""
    try:
        info = msgspec.json.decode(body, type=_ServerInfo)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return CacheRoom()
    return CacheRoom(
        cache_tokens=(info.max_total_num_tokens or 0) * (info.dp_size or 1) or None,
        block_size=info.page_size or None,
        of_rank_tokens=info.max_total_num_tokens or None,
    )
