import httptools
import pytest

from gateway.server.request_rules import announced_bytes, authority_of, check_head, check_host, check_line


@pytest.mark.parametrize("value", [b"a", b"A.example:80", b"10.0.0.1", b"[::1]", b"[::1]:8080", b"a:", b"a_b-c~d"])
def test_a_host_is_a_name_or_an_address(value: bytes) -> None:
    """With or without a port."""
    assert check_host(value) is None


@pytest.mark.parametrize("value", [b"", b"a b", b"a/b", b"a,b c", b"u@a", b"a:b", b"::1", b"[a", b"a:123456", b"\xff"])
def test_any_other_host_is_refused(value: bytes) -> None:
    assert "The 'host' header must be a host name or an IP address, with or without a port." == check_host(value)


def test_a_head_has_one_host_and_no_coding_of_another_version() -> None:
    """HTTP/1.0 may be without a host."""
    assert check_head("1.1", hosts=1, is_coded=True) is None
    assert check_head("1.0", hosts=0, is_coded=False) is None
    assert "The 'host' header is missing. HTTP/1.1 requires it." == check_head("1.1", hosts=0, is_coded=False)
    assert "The request has more than one 'host' header. Send exactly one." == check_head(
        "1.0", hosts=2, is_coded=False
    )
    assert "HTTP/1.0 does not support 'transfer-encoding'" in (check_head("1.0", hosts=1, is_coded=True) or "")


@pytest.mark.parametrize(
    ("head", "is_right"),
    [
        (b"GET /a HTTP/1.1\r\nx", True),
        (b"GET /a HTTP/1.1\r\nGET  /a HTTP/1.1\r\n", True),
        (b"GET  /a HTTP/1.1\r\nGET /a HTTP/1.1\r\n", False),
        (b"GET /a  HTTP/1.1\r\n", False),
        (b"GET /a HTTP/1.1 \r\n", False),
        (b"GET /a HTTP/1.1\n", False),
    ],
)
def test_a_head_begins_with_its_line(head: bytes, is_right: bool) -> None:
    """The rest of the head does not matter."""
    fault = check_line(b"GET", b"/a", "1.1", head)

    assert is_right == (fault is None)
    assert fault is None or fault.endswith("separated by single spaces.")


def test_other_versions_are_refused() -> None:
    fault = check_line(b"GET", b"/", "2.0", b"GET / HTTP/2.0\r\n")

    assert "The gateway supports only HTTP/1.1 and HTTP/1.0." == fault


@pytest.mark.parametrize(
    ("target", "authority"),
    [
        (b"http://a/b", b"a"),
        (b"HTTPS://a:80/b", b"a:80"),
        (b"http://[::1]:80/b", b"[::1]:80"),
        (b"ftp://a/b", None),
        (b"http://me@a/b", None),
    ],
)
def test_an_absolute_target_has_a_host(target: bytes, authority: bytes | None) -> None:
    """Only an HTTP URL without a user has one."""
    assert authority == authority_of(httptools.parse_url(target))


def test_the_announced_length_is_zero_without_a_header() -> None:
    assert 12 == announced_bytes([(b"host", b"a"), (b"content-length", b"12")])
    assert 0 == announced_bytes([(b"host", b"a")])
