"""The Redis of the tests."""

import pytest

from tests.storage import RedisServer, RedisServers, free_port


@pytest.mark.redis
def test_a_durable_server_has_after_a_kill_what_it_answered_before(durable_redis_server: RedisServer) -> None:
    """A kill of the process is no loss of power."""
    with durable_redis_server.client() as client:
        for number in range(1000):
            client.incr(f"n{number}")
    durable_redis_server.kill()
    durable_redis_server.start()
    with durable_redis_server.client() as client:
        kept = client.dbsize()

    assert 1000 == kept


@pytest.mark.redis
def test_a_plain_server_forgets_everything_when_it_is_killed(redis_server: RedisServer) -> None:
    """Nothing of one test reaches another."""
    with redis_server.client() as client:
        client.set("a", "1")
    redis_server.kill()
    redis_server.start()
    with redis_server.client() as client:
        kept = client.dbsize()

    assert 0 == kept


@pytest.mark.redis
def test_a_server_may_have_a_port_and_a_password(redis_servers: RedisServers) -> None:
    server = redis_servers.make(port=free_port())
    server.arguments = ("--requirepass", "opensesame")
    server.start()

    assert f"redis://127.0.0.1:{server.port}/0" == server.tcp_url
