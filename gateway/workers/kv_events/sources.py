"""Addresses at which an engine publishes KV events. The engine reports them, or the settings contain them."""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from gateway.backends.probe import WorkerProbe
from gateway.workers.kv_events.connection import Network

JSON_BYTES = 2**20

_ENDPOINT = re.compile(r"tcp://(?P<host>\[[^\]\s]+\]|[^\s:/]+|::):(?P<port>\d{1,5})")
_WILDCARDS = frozenset({"*", "0.0.0.0", "::", "[::]"})  # noqa: S104  # compared with what engines tell, never bound
_MAX_PORT = 65_535
_MAX_RANKS = 1024

_Port = Annotated[int, msgspec.Meta(ge=1, le=_MAX_PORT)]


@dataclass(frozen=True, slots=True)
class EventSource:
    """Event addresses of one data-parallel rank of a worker."""

    endpoint: str | None
    """Address of the rank's PUB socket in ZeroMQ format, or None if the engine itself connects to the gateway."""
    replay_endpoint: str | None = None
    """Address of the rank's ROUTER socket, or None if missed batches cannot be requested."""
    topic: str = ""
    """Topic of the rank's messages. An empty string stands for all topics."""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class EventSources:
    """Event addresses of all ranks of one worker. If its KV events are disabled, there are no addresses."""

    of_ranks: tuple[EventSource, ...]
    block_size: int | None = None
    """Number of tokens per KV cache block, or None if the engine does not report it with the addresses."""
    refused_hosts: tuple[str, ...] = ()
    """Hosts that the engine reported but that `AllowedHosts` forbids. The gateway never connects to these hosts."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Hosts to which an engine is allowed to direct the gateway: the engine's own host, and addresses in *networks*.

    Without this limit, a worker could make the gateway connect to any address in the operator's network.
    """

    host: str
    addresses: Collection[str] = ()
    """IP addresses of *host*, if *host* is a name."""
    networks: Sequence[Network] = ()

    def has(self, named: str) -> bool:
        if any(_is_same_host(named, own) for own in (self.host, *self.addresses)):
            return True
        try:
            address = ipaddress.ip_address(named.strip("[]"))
        except ValueError:
            return False
        return any(address in network for network in self.networks)


class _VllmSource(msgspec.Struct):
    """Event source in vLLM's format (`vllm/config/kv_events.py`). The ports in its endpoints belong to the rank."""

    enable_kv_cache_events: bool = False
    publisher: str | None = None
    endpoint: str | None = None
    replay_endpoint: str | None = None
    topic: str = ""

    @property
    def publishes(self) -> bool:
        return self.enable_kv_cache_events and self.publisher != "null"


class _SglangSource(msgspec.Struct):
    """Event source in SGLang's format (`describe_kv_events_publisher`). Its ports belong to rank 0."""

    publisher: str | None = None
    endpoint_host: str | None = None
    endpoint_port_base: _Port | None = None
    replay_endpoint_port_base: _Port | None = None
    topic: str | None = None
    block_size: int | None = None
    dp_size: Annotated[int, msgspec.Meta(ge=1, le=_MAX_RANKS)] | None = None


class _SglangInfo(msgspec.Struct):
    kv_events: _SglangSource | None


async def find_sources(
    probe: WorkerProbe, *, host: str, dial_in_port: int | None = None, networks: Sequence[Network] = ()
) -> EventSources | None:
    """Query the worker at *host* for the addresses of its events, with at most two requests. If it reports none, return
    None.

    vLLM from 0.31 on and SGLang report addresses. *dial_in_port* is the port at which the gateway accepts engines. An
    engine that publishes to this port of another host connects to the gateway. *networks* is explained at
    `AllowedHosts`.
    """
    reach = AllowedHosts(host, networks=networks)
    body = await probe.body("/kv_event_sources", max_bytes=JSON_BYTES)
    sources = None if body is None else parse_kv_event_sources(body, reach, dial_in_port=dial_in_port)
    if body is not None and sources is not None and sources.refused_hosts:
        reach = AllowedHosts(host, await _addresses_of(host), networks)
        return parse_kv_event_sources(body, reach, dial_in_port=dial_in_port)
    if sources is not None:
        return sources
    body = await probe.body("/server_info", max_bytes=JSON_BYTES)
    sources = None if body is None else parse_server_info(body, reach)
    if body is not None and sources is not None and sources.refused_hosts:
        return parse_server_info(body, AllowedHosts(host, await _addresses_of(host), networks))
    return sources


def parse_kv_event_sources(body: bytes, reach: AllowedHosts, *, dial_in_port: int | None = None) -> EventSources | None:
    """Parse vLLM's response to ``GET /kv_event_sources``. If the body has another format, return None. See
    `find_sources`.
    """
    try:
        answer = msgspec.json.decode(body, type=dict[str, _VllmSource])
        ranks = {int(rank): source for rank, source in answer.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    of_ranks = (_vllm_source(source, rank, reach, dial_in_port=dial_in_port) for rank, source in sorted(ranks.items()))
    refused = {host: None for source in ranks.values() for host in _refused(source, reach, dial_in_port=dial_in_port)}
    return EventSources(tuple(source for source in of_ranks if source is not None), refused_hosts=tuple(refused))


def parse_server_info(body: bytes, reach: AllowedHosts) -> EventSources | None:
    """Parse SGLang's response to ``GET /server_info``. If the body has another format, return None."""
    try:
        info = msgspec.json.decode(body, type=_SglangInfo).kv_events
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if info is None or info.publisher in (None, "null") or info.endpoint_port_base is None:
        return EventSources(())
    at = reach.host if info.endpoint_host is None or info.endpoint_host in _WILDCARDS else info.endpoint_host
    if not reach.has(at):
        return EventSources((), refused_hosts=(at,))
    replay_base = info.replay_endpoint_port_base
    first = EventSource(
        endpoint=endpoint_at(at, info.endpoint_port_base),
        replay_endpoint=None if replay_base is None else endpoint_at(at, replay_base),
        topic=info.topic or "",
    )
    return EventSources(of_all_ranks(first, info.dp_size or 1), info.block_size)


async def _addresses_of(host: str) -> frozenset[str]:
    """Resolve the host name *host*. If the name has no address, the result is empty."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(address[0]) for *_, address in found)


def of_all_ranks(first: EventSource, ranks: int) -> tuple[EventSource, ...]:
    """Return the event sources of all data-parallel ranks, computed from the source of rank 0.

    Both ports of a rank are those of rank 0 plus its number, as in vLLM and SGLang. Ranks whose port would exceed
    65,535 are left out.
    """
    found = (
        EventSource(
            None if first.endpoint is None else _offset(first.endpoint, rank),
            None if first.replay_endpoint is None else _offset(first.replay_endpoint, rank),
            first.topic,
            rank,
        )
        for rank in range(ranks)
    )
    return tuple(
        source
        for source in found
        if (source.endpoint is None) == (first.endpoint is None)
        and (source.replay_endpoint is None) == (first.replay_endpoint is None)
    )


def by_hand(*, url: str, endpoint: str | None, replay_endpoint: str | None, topic: str, ranks: int = 1) -> EventSources:
    """Return the configured event sources of the worker at *url*, with the worker's host in place of a wildcard.

    Raises:
        ValueError: if an endpoint is not a tcp, ipc or inproc address. The message names it.
    """
    host = host_of(url)
    for written in (endpoint, replay_endpoint):
        if written is not None and reachable(written, host=host) is None:
            raise ValueError(f"{written!r} is not a ZMQ endpoint such as tcp://host:port")
    first = EventSource(
        None if endpoint is None else reachable(endpoint, host=host),
        None if replay_endpoint is None else reachable(replay_endpoint, host=host),
        topic,
    )
    return EventSources(of_all_ranks(first, ranks))


def host_of(url: str) -> str:
    """Return the host in a worker's URL. An IPv6 address is returned without brackets."""
    return urlsplit(url).hostname or ""


def endpoint_at(host: str, port: int) -> str:
    """Return a ZeroMQ TCP endpoint. An IPv6 address is put in brackets."""
    return f"tcp://[{host}]:{port}" if ":" in host.strip("[]") else f"tcp://{host}:{port}"


def reachable(endpoint: str, *, host: str) -> str | None:
    """Return *endpoint* with *host* in place of a wildcard host, or None if it is not a valid address. ipc and inproc
    endpoints are returned unchanged.
    """
    if endpoint.startswith(("ipc://", "inproc://")):
        return endpoint if endpoint.partition("://")[2] else None
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None or not 0 < int(match["port"]) <= _MAX_PORT:
        return None
    return endpoint_at(host, int(match["port"])) if match["host"] in _WILDCARDS else endpoint


def _vllm_source(
    source: _VllmSource, rank: int, reach: AllowedHosts, *, dial_in_port: int | None
) -> EventSource | None:
    if not source.publishes or source.endpoint is None:
        return None
    replay = None if source.replay_endpoint is None else _named(source.replay_endpoint, reach)
    if _dials(source.endpoint, host=reach.host, port=dial_in_port):
        return EventSource(None, replay, source.topic, rank)
    endpoint = _named(source.endpoint, reach)
    return None if endpoint is None else EventSource(endpoint, replay, source.topic, rank)


def _named(endpoint: str, reach: AllowedHosts) -> str | None:
    """Return the endpoint that an engine reported, without a wildcard, or None if the endpoint is invalid or not
    allowed.
    """
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None or not (match["host"] in _WILDCARDS or reach.has(match["host"])):
        return None  # ipc and inproc, too: a file of this machine is not the engine's
    return reachable(endpoint, host=reach.host)


def _refused(source: _VllmSource, reach: AllowedHosts, *, dial_in_port: int | None) -> Iterator[str]:
    """Yield the hosts in *source* that *reach* does not allow."""
    if not source.publishes:
        return
    for endpoint in (source.endpoint, source.replay_endpoint):
        if endpoint is None or (endpoint is source.endpoint and _dials(endpoint, host=reach.host, port=dial_in_port)):
            continue
        match = _ENDPOINT.fullmatch(endpoint)
        if match is None and endpoint.startswith(("ipc://", "inproc://")):
            yield endpoint
        elif match is not None and match["host"] not in _WILDCARDS and not reach.has(match["host"]):
            yield match["host"]


def _dials(endpoint: str, *, host: str, port: int | None) -> bool:
    """Return whether an engine at *host* connects to the configured *endpoint* instead of binding it.

    vLLM binds wildcard addresses, and the address of its node if the system chose the port. It connects to all others.
    """
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None or match["host"] in _WILDCARDS or int(match["port"]) != port:
        return False
    return not _is_same_host(match["host"], host)


def _is_same_host(one: str, other: str) -> bool:
    try:
        first, second = (ipaddress.ip_address(each.strip("[]")) for each in (one, other))
    except ValueError:
        return one == other or all(_is_this_machine(each) for each in (one, other))
    return first == second or (first.is_loopback and second.is_loopback)


def _is_this_machine(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1", "[::1]")


def _offset(endpoint: str, rank: int) -> str | None:
    """Return the endpoint for *rank* by the rules of vLLM's `offset_endpoint_port`. An ipc endpoint has only rank 0."""
    if rank == 0:
        return endpoint
    if endpoint.startswith("inproc://"):
        return f"{endpoint}_dp{rank}"
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None:
        return None
    port = int(match["port"]) + rank
    return f"tcp://{match['host']}:{port}" if port <= _MAX_PORT else None
