"""What is asked of HAProxy and Redis; `python -m benchmarks.replicas` runs them."""

import shutil
import urllib.request

import pytest
import redis

from benchmarks import balancer
from benchmarks.balancer import CONFIG, Redis, start_haproxy, start_redis
from benchmarks.processes import ChildFailedError, Processes


def test_gateways_take_turns_and_are_asked_how_they_are() -> None:
    """One that is not ready gets nothing."""
    text = CONFIG.format(port=11, servers="    server g0 127.0.0.1:1\n    server g1 127.0.0.1:2")

    assert "bind 127.0.0.1:11\n" in text
    assert "balance roundrobin\n    option httpchk GET /readyz\n" in text
    assert "    server g0 127.0.0.1:1\n    server g1 127.0.0.1:2\n" in text


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
@pytest.mark.e2e
def test_a_redis_is_fresh_and_answers() -> None:
    """On a port of its own, which no one else has."""
    with Processes() as processes:
        first, second = start_redis(processes), start_redis(processes)

    assert first != second
    assert first.startswith("redis://127.0.0.1:")


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
@pytest.mark.e2e
def test_a_redis_that_is_kept_comes_back_as_it_was() -> None:
    """At the same address, with what it had acknowledged before it was killed."""
    with Processes() as processes:
        server = Redis(processes, is_kept=True)
        with redis.Redis.from_url(server.url) as client:
            client.set("k", "v")
        server.kill()
        server.restart()
        with redis.Redis.from_url(server.url) as client:
            found = client.get("k")

    assert b"v" == found


@pytest.mark.skipif(shutil.which("haproxy", path=balancer.HAPROXY_PLACES) is None, reason="haproxy is not installed")
@pytest.mark.e2e
def test_a_balancer_without_gateways_says_so() -> None:
    """It listens, and answers 503 where no one does."""
    with Processes() as processes:
        url = start_haproxy(processes, ["http://127.0.0.1:1"])
        with pytest.raises(urllib.request.HTTPError) as refused:
            urllib.request.urlopen(f"{url}/readyz", timeout=10)
        refused.value.close()

    assert 503 == refused.value.code


def test_what_is_not_installed_is_said() -> None:
    """The benchmark cannot run, and nothing else is wrong."""
    with Processes() as processes:
        with pytest.raises(ChildFailedError, match="haproxy is not installed"):
            start_haproxy(processes, [], places="")
        with pytest.raises(ChildFailedError, match="neither redis-server nor valkey-server is installed"):
            start_redis(processes, programs=["no-such-program"])
