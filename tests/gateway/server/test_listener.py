from contextlib import closing

import pytest

from gateway.server.listener import ServerError, address_of, bind


def test_a_host_that_is_not_here_is_one_sentence() -> None:
    """An address of another machine cannot be listened on."""
    with pytest.raises(ServerError, match=r"^Cannot listen on 192\.0\.2\.1 port 0: Cannot assign requested address\.$"):
        bind("192.0.2.1", 0)


def test_an_unknown_host_is_one_sentence() -> None:
    """It contains the resolver's reason."""
    with pytest.raises(ServerError, match=r"^Cannot listen on no such host: .+\.$"):
        bind("no such host", 0)


def test_the_address_has_the_real_port() -> None:
    """An IPv6 address stands in brackets."""
    with closing(bind("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]

        assert f"http://127.0.0.1:{port}" == address_of(bound, "127.0.0.1")
        assert f"http://[::1]:{port}" == address_of(bound, "::1")
