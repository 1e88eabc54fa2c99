"""Disaggregated serving: prefill workers compute prompts and hold the blocks. Decode workers fetch the blocks and
generate answers.

In vLLM (nixl/pull_scheduler.py), a worker that gets a request for remote decode keeps the blocks pinned under a lease,
and returns their location in ``kv_transfer_params``. A worker that gets these parameters fetches the blocks once. If
the blocks are gone, it computes the prompt itself, like vLLM with ``kv_load_failure_policy`` recompute.

In SGLang (sglang/srt/disaggregation), both workers get the same request and find each other by ``bootstrap_room``,
which is required. A prefill worker generates one token, and holds its answer until its blocks are fetched. A decode
worker computes no prompt, so the request fails if no blocks arrive.

Fetched blocks are in the decode worker's cache like computed blocks: its events report them, and its ``cached_tokens``
include them. The decode worker computes a partial last block itself.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias, TypeVar
from uuid import uuid4

import msgspec

from engine_model.blocks import BlockPool
from engine_model.request import EngineRequest
from simulator.bodies import GenerationRequest
from simulator.connection import Connection
from simulator.errors import ApiError, Dialect
from simulator.exchange import ClientGone
from simulator.side_channel import NotFetched, Question, SideChannel, fetched
from simulator.sse import Json

RoleName: TypeAlias = Literal["both", "prefill", "decode"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HalfOptions:
    """Options of a prefill or decode worker."""

    side_channel_port: int = 0
    """Port on which other workers request KV blocks, or 0 to let the system choose a port."""
    side_channel_host: str = "localhost"
    """Host name, reported by vLLM, from which other workers fetch KV blocks (VLLM_NIXL_SIDE_CHANNEL_HOST)."""
    transfer_us_per_token: float = 5.0
    """Microseconds to fetch the KV blocks of one token. The default is the time for 128 KiB over 200 Gbit/s."""
    lease_s: float = 480.0
    """Seconds for which blocks are held for other workers. SGLang's workers wait for each other equally long."""

    def __post_init__(self) -> None:
        if not 0 <= self.side_channel_port < 65536:
            raise ValueError(f"side_channel_port must be 0 to 65535, got {self.side_channel_port}")
        if not 0 <= self.transfer_us_per_token < 1e9:
            raise ValueError(f"transfer_us_per_token must not be negative, got {self.transfer_us_per_token}")
        if not 0 < self.lease_s < 1e9:
            raise ValueError(f"lease_s must be above 0, got {self.lease_s}")


class Half(Protocol):
    """Prefill or decoding of a request, where another worker does the rest."""

    def shaped(self, request: GenerationRequest) -> GenerationRequest:
        """Return the part of *request* that this worker handles."""
        ...

    async def before(self, requests: Sequence[EngineRequest]) -> None:
        """Wait until the engine can start *requests*. Raises `ApiError` if they cannot start."""
        ...

    async def after(self) -> Json | None:
        """Wait until the answer is allowed to end. Return the description of the held blocks, if any."""
        ...

    def abandon(self) -> None:
        """Clean up after the request, whatever its outcome. Only the first call has an effect."""
        ...


class Role(Protocol):
    @property
    def reported(self) -> Json:
        """Return the fields that describe this role among the start options in the worker's report."""
        ...

    def half(self, body: bytes, request_id: str) -> Half | None:
        """Return this worker's part of a request with *body*, or None if the worker handles the whole request."""
        ...


async def unless_gone(connection: Connection, work: Coroutine[Any, Any, T]) -> T:
    """Run *work* while the caller waits for it. Raises `ClientGone` if the caller disconnects."""
    async with asyncio.TaskGroup() as tasks:
        working, gone = tasks.create_task(_tried(work)), tasks.create_task(connection.wait_lost())
        try:
            await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            gone.cancel()
    if working.cancelled():
        raise ClientGone
    done, failure = working.result()
    if failure is not None:
        raise failure
    return done  # type: ignore[return-value]  # there is one where nothing failed


async def _tried(work: Coroutine[Any, Any, T]) -> tuple[T | None, Exception | None]:
    """Return the result or the exception of *work*. In contrast, a task group would wrap the exception."""
    try:
        return await work, None
    except (ApiError, NotFetched) as failure:
        return None, failure


class KvSource(msgspec.Struct):
    """Worker from whose host tier a request pulls blocks."""

    remote_host: str
    remote_port: int
    kv_request_id: str = ""


class TransferParams(msgspec.Struct):
    do_remote_decode: bool = False
    do_remote_prefill: bool = False
    remote_request_id: str | None = None
    remote_host: str | None = None
    remote_port: int | None = None
    remote_kv_source: KvSource | None = None


class _Body(msgspec.Struct):
    kv_transfer_params: TransferParams | None = None
    bootstrap_host: str | None = None
    bootstrap_port: int | None = None
    bootstrap_room: int | None = None


def read_transfer(body: bytes) -> TransferParams | None:
    """Return the field kv_transfer_params of a request body, or None without the field. Raises `ApiError` if it is
    invalid.
    """
    return _read(body).kv_transfer_params


def _read(body: bytes) -> _Body:
    if not body.lstrip().startswith(b"{"):
        return _Body()
    try:
        return msgspec.json.decode(body, type=_Body)
    except msgspec.ValidationError as error:
        raise ApiError(400, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Body()  # for the endpoint to say


@asynccontextmanager
async def role_of(
    name: RoleName,
    options: HalfOptions,
    *,
    dialect: Dialect,
    host: str,
    pool: BlockPool,
    speed: float,
    when_free: Callable[[], None],
) -> AsyncIterator[Role | None]:
    """Yield the role of a worker with *pool* that listens on *host*, or None if the worker handles whole requests.

    *when_free* is called when held blocks have become free.

    Raises:
        OSError: if the side channel cannot be bound.
    """
    if name == "both":
        yield None
        return
    s_per_token = options.transfer_us_per_token * 1e-6 / speed if 0 < speed < float("inf") else 0.0
    transfer = _Transfer(pool, s_per_token, options.lease_s)
    if name == "decode":
        yield SglangDecode(transfer) if dialect == "sglang" else VllmDecode(transfer)
        return
    channel = SideChannel(wait_s=options.lease_s)
    async with channel.listening(host, options.side_channel_port):
        yield SglangPrefill(channel, options) if dialect == "sglang" else VllmPrefill(channel, pool, options, when_free)


@dataclass(frozen=True, slots=True)
class _Transfer:
    """Transfer of KV blocks from another worker into *pool*."""

    pool: BlockPool
    s_per_token: float
    timeout_s: float

    async def bring(
        self, requests: Sequence[EngineRequest], host: str, port: int, questions: Sequence[Question]
    ) -> None:
        """Fetch the prompt blocks of *requests* from other workers. Raises `NotFetched` if blocks are missing."""
        for request, question in zip(requests, questions, strict=False):
            tokens = await fetched(host, port, question, timeout_s=self.timeout_s)
            held = len(self.pool.match(request.block_hashes, request.prompt_tokens // self.pool.block_size))
            missing = max(0, min(tokens, request.prompt_tokens) - held * self.pool.block_size)
            await asyncio.sleep(missing * self.s_per_token)
            adopt(self.pool, request, tokens)


def adopt(pool: BlockPool, request: EngineRequest, tokens: int) -> None:
    """Cache the full blocks of the first *tokens* tokens of a prompt, if there is space."""
    full = min(tokens, request.prompt_tokens) // pool.block_size
    held = pool.match(request.block_hashes, full)
    blocks = pool.take(held, full - len(held))
    if blocks is None:
        return
    hashes, begin = request.block_hashes, len(held)
    pool.store(
        blocks[begin:],
        hashes[begin:full],
        parent=hashes[begin - 1] if begin else None,
        token_ids=request.token_ids[begin * pool.block_size : full * pool.block_size],
        scope=request.scope,
    )
    pool.release(blocks)


class WholeRequest:
    """Part of a request that is the whole request."""

    def shaped(self, request: GenerationRequest) -> GenerationRequest:
        return request

    async def before(self, requests: Sequence[EngineRequest]) -> None:
        pass

    async def after(self) -> Json | None:
        return None

    def abandon(self) -> None:
        pass


class VllmPrefill:
    def __init__(
        self, channel: SideChannel, pool: BlockPool, options: HalfOptions, when_free: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._pool = pool
        self._options = options
        self._when_free = when_free
        self._engine_id = str(uuid4())

    @property
    def reported(self) -> Json:
        return {}

    def half(self, body: bytes, request_id: str) -> Half | None:
        params = _read(body).kv_transfer_params
        if params is None or not params.do_remote_decode:
            return None
        return _HeldByVllm(self, f"{request_id}-{uuid4().hex[:8]}")

    def keep(self, key: str, request: EngineRequest) -> Json:
        """Hold the prompt blocks of *request* under *key*, and return the information needed to fetch them."""
        pool, lease_s = self._pool, self._options.lease_s
        found = pool.match(request.block_hashes, request.prompt_tokens // pool.block_size)
        blocks = pool.take(found, 0) or []
        tokens = request.prompt_tokens if len(blocks) == request.prompt_tokens // pool.block_size else 0

        def give_back() -> None:
            pool.release(blocks)
            self._when_free()

        self._channel.keep(key, tokens, lease_s=lease_s, when_over=give_back)
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [blocks],
            "remote_engine_id": self._engine_id,
            "remote_request_id": key,
            "remote_host": self._options.side_channel_host,
            "remote_port": self._channel.port,
            "tp_size": 1,
            "dcp_size": 1,
            "pp_size": 1,
            "remote_num_tokens": tokens,
            "remote_blocks_expiry_time": time.time() + lease_s,  # noqa: TID251  # which others have too
            "remote_registration_generation": 0,
            "transfer_mode": "pull",
        }


class _HeldByVllm(WholeRequest):
    def __init__(self, role: VllmPrefill, key: str) -> None:
        self._role = role
        self._key = key
        self._requests: Sequence[EngineRequest] = ()

    async def before(self, requests: Sequence[EngineRequest]) -> None:
        self._requests = requests

    async def after(self) -> Json | None:
        return self._role.keep(self._key, self._requests[0])


class VllmDecode:
    def __init__(self, transfer: _Transfer) -> None:
        self._transfer = transfer

    @property
    def reported(self) -> Json:
        return {}

    def half(self, body: bytes, request_id: str) -> Half | None:  # noqa: ARG002
        params = _read(body).kv_transfer_params
        if params is None or not params.do_remote_prefill:
            return None
        key, host, port = params.remote_request_id, params.remote_host, params.remote_port
        if key is None or host is None or port is None:
            raise ApiError(400, "kv_transfer_params must have remote_request_id, remote_host and remote_port")
        return _FetchedByVllm(self._transfer, host, port, key)


class _FetchedByVllm(WholeRequest):
    def __init__(self, transfer: _Transfer, host: str, port: int, key: str) -> None:
        self._transfer = transfer
        self._host = host
        self._port = port
        self._key = key

    async def before(self, requests: Sequence[EngineRequest]) -> None:
        try:
            await self._transfer.bring(requests, self._host, self._port, [Question(self._key)])
        except NotFetched:
            return  # it computes the prompt


class SglangPrefill:
    def __init__(self, channel: SideChannel, options: HalfOptions) -> None:
        self._channel = channel
        self._options = options

    @property
    def reported(self) -> Json:
        return {"disaggregation_mode": "prefill", "disaggregation_bootstrap_port": self._channel.port}

    def half(self, body: bytes, request_id: str) -> Half | None:  # noqa: ARG002
        return _HeldBySglang(self._channel, _room(_read(body)), self._options.lease_s)


class _HeldBySglang(WholeRequest):
    def __init__(self, channel: SideChannel, room: int, wait_s: float) -> None:
        self._channel = channel
        self._room = room
        self._wait_s = wait_s
        self._tokens: dict[str, int] = {}

    def shaped(self, request: GenerationRequest) -> GenerationRequest:
        return replace(request, max_tokens=[1] * len(request.max_tokens), min_tokens=0)

    async def before(self, requests: Sequence[EngineRequest]) -> None:
        for number, request in enumerate(requests):
            self._tokens[str(self._room + number)] = request.prompt_tokens
            self._channel.hold(str(self._room + number))

    async def after(self) -> Json | None:
        holds = [(self._channel.hold(room), tokens) for room, tokens in self._tokens.items()]
        for hold, tokens in holds:
            if not hold.computed.done():
                hold.computed.set_result(tokens)
        await asyncio.wait([hold.fetched for hold, _ in holds], timeout=self._wait_s)
        return None

    def abandon(self) -> None:
        for room in self._tokens:
            self._channel.forget(room)


class SglangDecode:
    def __init__(self, transfer: _Transfer) -> None:
        self._transfer = transfer

    @property
    def reported(self) -> Json:
        return {"disaggregation_mode": "decode"}

    def half(self, body: bytes, request_id: str) -> Half | None:  # noqa: ARG002
        reported = _read(body)
        room = _room(reported)
        if reported.bootstrap_host is None:
            raise ApiError(400, "a disaggregated request needs bootstrap_host")
        return _FetchedBySglang(self._transfer, reported.bootstrap_host, reported.bootstrap_port or 8998, room)


class _FetchedBySglang(WholeRequest):
    def __init__(self, transfer: _Transfer, host: str, port: int, room: int) -> None:
        self._transfer = transfer
        self._host = host
        self._port = port
        self._room = room

    async def before(self, requests: Sequence[EngineRequest]) -> None:
        questions = [Question(str(self._room + number), waits=True) for number in range(len(requests))]
        try:
            await self._transfer.bring(requests, self._host, self._port, questions)
        except NotFetched as error:
            raise ApiError(500, f"Decode transfer failed for bootstrap_room {self._room}: {error}") from None


def _room(reported: _Body) -> int:
    if reported.bootstrap_room is None:
        raise ApiError(400, "Disaggregated request received without bootstrap room id.")
    return reported.bootstrap_room
