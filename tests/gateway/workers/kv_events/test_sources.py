"""Where an engine publishes."""

import json
from ipaddress import ip_network
from typing import Any

import pytest

from gateway.backends.client import WorkerClient
from gateway.backends.probe import WorkerProbe
from gateway.workers.kv_events.sources import (
    AllowedHosts,
    EventSource,
    EventSources,
    by_hand,
    endpoint_at,
    find_sources,
    host_of,
    of_all_ranks,
    parse_kv_event_sources,
    parse_server_info,
    reachable,
)
from tests.fakes.engine import Answer, Page, fake_engine
from tests.gateway.workers.kv_events.recorded import RECORDINGS


def vllm(**changes: Any) -> dict[str, Any]:
    """One rank in vLLM's answer."""
    reported = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": "tcp://*:5557",
        "replay_endpoint": "tcp://*:5558",
        "buffer_steps": 10000,
        "hwm": 100000,
        "max_queue_size": 100000,
        "topic": "kv@a@tiny",
    }
    return reported | changes


def parsed(
    *ranks: dict[str, Any], host: str = "10.0.0.7", dial_in_port: int | None = None, allowed: tuple[str, ...] = ()
) -> EventSources | None:
    body = json.dumps({str(rank): reported for rank, reported in enumerate(ranks)}).encode()
    reach = AllowedHosts(host, networks=[ip_network(network) for network in allowed])
    return parse_kv_event_sources(body, reach, dial_in_port=dial_in_port)


def test_a_real_vllm() -> None:
    """0.32; wildcards are the worker's host."""
    body = json.dumps(RECORDINGS["int_hashes"]["kv_event_sources"]).encode()

    assert EventSources(
        (EventSource("tcp://10.0.0.7:25712", "tcp://10.0.0.7:25713", "kv@engine@tiny", 0),)
    ) == parse_kv_event_sources(body, AllowedHosts("10.0.0.7"))


def test_ranks_of_vllm_have_their_own_ports() -> None:
    """The endpoints have them already."""
    assert EventSources(
        (
            EventSource("tcp://h:5557", "tcp://h:6557", "", 0),
            EventSource("tcp://h:5558", "tcp://h:6558", "", 1),
        )
    ) == parsed(
        vllm(topic="", replay_endpoint="tcp://*:6557"),
        vllm(topic="", endpoint="tcp://*:5558", replay_endpoint="tcp://*:6558"),
        host="h",
    )


def test_events_that_are_switched_off() -> None:
    """Known, and none."""
    assert EventSources(()) == parsed()
    assert EventSources(()) == parsed(vllm(enable_kv_cache_events=False))
    assert EventSources(()) == parsed(vllm(publisher="null"))
    assert EventSources(()) == parsed(vllm(endpoint=None))
    assert EventSources(()) == parsed(vllm(endpoint="nonsense"))


def test_no_replay_endpoint() -> None:
    """The default of vLLM has none."""
    assert EventSources((EventSource("tcp://10.0.0.7:5557", None, "kv@a@tiny"),)) == parsed(vllm(replay_endpoint=None))
    assert EventSources((EventSource("tcp://10.0.0.7:5557", None, "kv@a@tiny"),)) == parsed(
        vllm(replay_endpoint="tcp://*:0")
    )


def test_an_engine_that_dials() -> None:
    """It names another host than its own, and the port at which we can be dialled; its replays it binds itself."""
    away = vllm(endpoint="tcp://10.0.0.1:5557")

    assert EventSources((EventSource(None, "tcp://10.0.0.7:5558", "kv@a@tiny"),)) == parsed(away, dial_in_port=5557)
    assert EventSources((EventSource("tcp://10.0.0.1:5557", "tcp://10.0.0.7:5558", "kv@a@tiny"),)) == parsed(
        away, dial_in_port=7000, allowed=("10.0.0.0/24",)
    )


def test_a_port_that_the_system_chose() -> None:
    """vLLM names its own address then, and has bound it."""
    own = vllm(endpoint="tcp://10.0.0.7:34567", replay_endpoint="tcp://[fd00::7]:34568")

    assert EventSources((EventSource("tcp://10.0.0.7:34567", "tcp://[fd00::7]:34568", "kv@a@tiny"),)) == parsed(
        own, dial_in_port=34567, allowed=("fd00::/64",)
    )


@pytest.mark.parametrize(
    "named",
    [
        "tcp://10.0.0.8:6379",
        "tcp://169.254.169.254:80",
        "tcp://redis.internal:6379",
        "tcp://127.0.0.1:6379",
        "tcp://localhost:6379",
        "tcp://[fd00::8]:6379",
        "ipc:///run/docker.sock",
        "inproc://other",
    ],
)
def test_an_engine_that_names_another_host_is_not_followed_there(named: str) -> None:
    """Neither for its events nor for its replays, and what it named is known."""
    host = named if "tcp://" not in named else named.removeprefix("tcp://").rpartition(":")[0]

    assert EventSources((), refused_hosts=(host,)) == parsed(vllm(endpoint=named))
    assert EventSources((EventSource("tcp://10.0.0.7:5557", None, "kv@a@tiny"),), refused_hosts=(host,)) == parsed(
        vllm(replay_endpoint=named)
    )
    assert EventSources(()) == parsed(vllm(endpoint=named, publisher="null"))


def test_an_engine_may_name_hosts_of_the_list() -> None:
    """`kv_events.allowed_cidrs`."""
    body = sglang(endpoint_host="10.1.1.1")

    assert EventSources((), refused_hosts=("10.1.1.1",)) == parse_server_info(body, AllowedHosts("h"))
    assert AllowedHosts("h", networks=[ip_network("10.1.0.0/16")]).has("10.1.1.1")
    assert not AllowedHosts("h", networks=[ip_network("10.1.0.0/16")]).has("10.2.1.1")


def test_this_machine_has_several_names() -> None:
    """A worker on the gateway's own machine may call it by any of them."""
    assert AllowedHosts("localhost").has("127.0.0.1")
    assert AllowedHosts("127.0.0.1").has("[::1]")
    assert AllowedHosts("h", addresses=["10.0.0.5"]).has("10.0.0.5")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"a": {}}', b'{"0": 5}', b'{"detail": "Not Found"}', b'{"0": {"endpoint": 5}}', b"\xff"]
)
def test_what_is_not_vllms(body: bytes) -> None:
    """Then it reports nothing."""
    assert parse_kv_event_sources(body, AllowedHosts("h")) is None


def sglang(**changes: Any) -> bytes:
    """The answer of SGLang, with what matters here."""
    reported = {
        "publisher": "zmq",
        "endpoint_host": "*",
        "endpoint_port_base": 5557,
        "topic": "kv",
        "block_size": 64,
        "dp_size": 2,
        "replay_endpoint_port_base": 6557,
    }
    return json.dumps({"version": "0.5.23", "kv_events": reported | changes}).encode()


def test_sglang_names_the_first_port() -> None:
    """Those of the other ranks follow."""
    assert EventSources(
        (EventSource("tcp://h:5557", "tcp://h:6557", "kv", 0), EventSource("tcp://h:5558", "tcp://h:6558", "kv", 1)), 64
    ) == parse_server_info(sglang(), AllowedHosts("h"))


def test_sglang_with_less() -> None:
    """No replays, no ranks, no topic, no page size; and a host of its own."""
    body = sglang(endpoint_host="10.1.1.1", replay_endpoint_port_base=None, dp_size=None, topic=None, block_size=None)

    assert EventSources((EventSource("tcp://10.1.1.1:5557"),)) == parse_server_info(body, AllowedHosts("10.1.1.1"))


def test_sglang_without_events() -> None:
    """Known, and none."""
    assert EventSources(()) == parse_server_info(b'{"kv_events": null}', AllowedHosts("h"))
    assert EventSources(()) == parse_server_info(sglang(publisher="null"), AllowedHosts("h"))
    assert EventSources(()) == parse_server_info(sglang(endpoint_port_base=None), AllowedHosts("h"))


@pytest.mark.parametrize("body", [b"", b"{}", b'{"kv_events": 5}', b"\xff", sglang(endpoint_port_base=70_000)])
def test_what_is_not_sglangs(body: bytes) -> None:
    """Then it reports nothing."""
    assert parse_server_info(body, AllowedHosts("h")) is None


def test_written_by_hand() -> None:
    """A wildcard is the worker's host, and ranks count up."""
    assert EventSources(
        (
            EventSource("tcp://[fd00::1]:5557", "tcp://replays:6557", "t", 0),
            EventSource("tcp://[fd00::1]:5558", "tcp://replays:6558", "t", 1),
        )
    ) == by_hand(
        url="http://[fd00::1]:8000",
        endpoint="tcp://*:5557",
        replay_endpoint="tcp://replays:6557",
        topic="t",
        ranks=2,
    )
    assert EventSources((EventSource(None, None, "t"),)) == by_hand(
        url="http://h:8000", endpoint=None, replay_endpoint=None, topic="t"
    )


@pytest.mark.parametrize("endpoint", ["", "5557", "tcp://h", "tcp://h:0", "tcp://h:70000", "http://h:1", "ipc://"])
def test_what_is_no_endpoint(endpoint: str) -> None:
    """Anyone who wrote it is notified which."""
    with pytest.raises(ValueError, match="endpoint"):
        by_hand(url="http://h:8000", endpoint="tcp://*:1", replay_endpoint=endpoint, topic="")
    with pytest.raises(ValueError, match="endpoint"):
        by_hand(url="http://h:8000", endpoint=endpoint, replay_endpoint=None, topic="")


def test_ports_of_ranks() -> None:
    """inproc gets a suffix as vLLM gives it; ipc has no ranks; nor are there ports beyond the last."""
    assert ["inproc://x", "inproc://x_dp1"] == [
        source.endpoint for source in of_all_ranks(EventSource("inproc://x"), 2)
    ]
    assert ["ipc:///x"] == [source.endpoint for source in of_all_ranks(EventSource("ipc:///x"), 2)]
    assert ["tcp://h:65535"] == [source.endpoint for source in of_all_ranks(EventSource("tcp://h:65535"), 2)]
    assert [None, None] == [source.endpoint for source in of_all_ranks(EventSource(None), 2)]


def test_addresses() -> None:
    """IPv6 has brackets."""
    assert "tcp://[::1]:5" == endpoint_at("::1", 5)
    assert "tcp://[::1]:5" == reachable("tcp://[::1]:5", host="h")
    assert "tcp://[fd00::1]:5" == reachable("tcp://[::]:5", host="fd00::1")
    assert "tcp://h:5" == reachable("tcp://:::5", host="h")
    assert "tcp://h:5" == reachable("tcp://0.0.0.0:5", host="h")
    assert "ipc:///run/kv" == reachable("ipc:///run/kv", host="h")
    assert ("fd00::1", "h", "") == (host_of("http://[fd00::1]:8000/v1"), host_of("http://h"), host_of("nonsense"))


async def found(answers: dict[str, Answer]) -> tuple[EventSources | None, list[str]]:
    """What is found, and what was asked for."""
    async with fake_engine(answers) as engine, WorkerClient() as client:
        probe = WorkerProbe(client, engine.url, timeout_s=5.0)
        return await find_sources(probe, host="h"), engine.asked


async def test_vllm_is_found() -> None:
    """At the first question."""
    page = Page(json.dumps({"0": vllm()}))

    assert (
        EventSources((EventSource("tcp://h:5557", "tcp://h:5558", "kv@a@tiny"),)),
        ["/kv_event_sources"],
    ) == await found({"/kv_event_sources": page})


async def test_sglang_is_found() -> None:
    """At the second."""
    sources, asked = await found({"/server_info": Page(sglang(dp_size=1).decode())})

    assert EventSources((EventSource("tcp://h:5557", "tcp://h:6557", "kv"),), 64) == sources
    assert ["/kv_event_sources", "/server_info"] == asked


async def test_others_do_not_tell() -> None:
    """An older engine, or one whose answer is something else."""
    assert (None, ["/kv_event_sources", "/server_info"]) == await found({})
    assert (None, ["/kv_event_sources", "/server_info"]) == await found(
        {"/kv_event_sources": Page("<html>"), "/server_info": Page("<html>")}
    )
