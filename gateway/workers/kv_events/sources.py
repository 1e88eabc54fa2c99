"""The addresses at which an engine publishes KV events, by its own account or by the settings."""

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
    """Addresses of one rank of one worker."""

    endpoint: str | None
    """Address of its PUB socket, as ZMQ writes it; None: the engine dials the gateway."""
    replay_endpoint: str | None = None
    """Address of its ROUTER socket; None: missed batches cannot be requested."""
    topic: str = ""
    """Topic under which it publishes; empty: any."""
    rank: int = 0
    """Data-parallel rank."""


@dataclass(frozen=True, slots=True)
class EventSources:
    """Addresses of all ranks of one worker. Empty: its events are switched off."""

    of_ranks: tuple[EventSource, ...]
    block_size: int | None = None
    """Tokens per block, if the engine reports them here."""
    refused_hosts: tuple[str, ...] = ()
    """Hosts that the engine names without permission; see `AllowedHosts`. The gateway never connects to them."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Hosts that the engine of the worker at *host* may name: its own, and addresses in *networks*.

    Without this limit a worker could make the gateway connect to any address inside the operator's network.
    """

    host: str
    addresses: Collection[str] = ()
    """Addresses of *host*, where it is a name."""
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
    """`vllm/config/kv_events.py`, with the port of the rank in its endpoints."""

    enable_kv_cache_events: bool = False
    publisher: str | None = None
    endpoint: str | None = None
    replay_endpoint: str | None = None
    topic: str = ""

    @property
    def publishes(self) -> bool:
        return self.enable_kv_cache_events and self.publisher != "null"


class _SglangSource(msgspec.Struct):
    """`describe_kv_events_publisher` of SGLang; ports are those of rank 0."""

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
    """Ask the worker at *host* itself: vLLM from 0.31, and SGLang; None if it does not answer. At most two requests.

    *dial_in_port*: where engines can dial us; one that publishes to that port of another host does. *networks*: see
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
    """Return the answer of vLLM to ``GET /kv_event_sources``; None if it is another one. See `find_sources`."""
    try:
        answer = msgspec.json.decode(body, type=dict[str, _VllmSource])
        ranks = {int(rank): source for rank, source in answer.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    of_ranks = (_vllm_source(source, rank, reach, dial_in_port=dial_in_port) for rank, source in sorted(ranks.items()))
    refused = {host: None for source in ranks.values() for host in _refused(source, reach, dial_in_port=dial_in_port)}
    return EventSources(tuple(source for source in of_ranks if source is not None), refused_hosts=tuple(refused))


def parse_server_info(body: bytes, reach: AllowedHosts) -> EventSources | None:
    """Return the answer of SGLang to ``GET /server_info``; None if it is another one."""
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
    """Return the addresses of the name *host*; empty if it has none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(address[0]) for *_, address in found)


def of_all_ranks(first: EventSource, ranks: int) -> tuple[EventSource, ...]:
    """Return the sources of all *ranks*, given that of rank 0: each has its own ports, counted up from the first.

    vLLM and SGLang offset both ports so. A port beyond 65,535 means that there is no such rank.
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
    """Return the sources in the settings of the worker at *url*; a wildcard stands for the worker's host.

    Raises:
        ValueError: an endpoint is not a tcp, ipc or inproc address. The text says which.
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
    """Return the host of a worker's URL, without brackets."""
    return urlsplit(url).hostname or ""


def endpoint_at(host: str, port: int) -> str:
    """Return an endpoint as ZMQ writes it, with brackets around an IPv6 address."""
    return f"tcp://[{host}]:{port}" if ":" in host.strip("[]") else f"tcp://{host}:{port}"


def reachable(endpoint: str, *, host: str) -> str | None:
    """Return *endpoint* with *host* for a wildcard; None if it cannot be connected to. ipc and inproc stay as they
    are.
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
    """Return *endpoint* as an engine names it; None if the gateway cannot connect to it, or should not."""
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None or not (match["host"] in _WILDCARDS or reach.has(match["host"])):
        return None  # ipc and inproc, too: a file of this machine is not the engine's
    return reachable(endpoint, host=reach.host)


def _refused(source: _VllmSource, reach: AllowedHosts, *, dial_in_port: int | None) -> Iterator[str]:
    """Return the hosts that it names without permission."""
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
    """Whether an engine at *host* that names *endpoint* connects there, instead of binding it.

    vLLM binds wildcards, and a node's own address where the port was left to the system; it connects to the rest.
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
    """Return the endpoint of *rank*, as vLLM's `offset_endpoint_port` does; ipc has no ranks beyond the first."""
    if rank == 0:
        return endpoint
    if endpoint.startswith("inproc://"):
        return f"{endpoint}_dp{rank}"
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None:
        return None
    port = int(match["port"]) + rank
    return f"tcp://{match['host']}:{port}" if port <= _MAX_PORT else None
