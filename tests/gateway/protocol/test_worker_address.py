"""Addresses of workers, and ids that are made from them."""

import pytest

from gateway.protocol.worker_address import endpoint, id_of_address, is_http_address, is_private_address


def test_two_spellings_of_one_address_have_one_form_and_one_id() -> None:
    assert "http://host:80" == endpoint("http://HOST") == endpoint("http://host:80")
    assert "https://host:443/base" == endpoint("https://host/base")
    assert "worker-34e94dd0" == id_of_address("http://a:1") == id_of_address("HTTP://A:1")


@pytest.mark.parametrize(
    "url", ["ftp://a", "a:8000", "http://", "http://a:99999", "http://a:0", "http://a b", "http://[::1"]
)
def test_an_address_is_http_with_a_host(url: str) -> None:
    assert not is_http_address(url)
    assert is_http_address("http://a:1")


def test_credentials_and_queries_make_an_address_private() -> None:
    assert [True, True, True, False] == [
        is_private_address(url) for url in ("http://u:p@a", "http://a?k=1", "http://a#b", "http://a/b")
    ]
