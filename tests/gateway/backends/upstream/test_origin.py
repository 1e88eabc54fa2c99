import pytest

from gateway.backends.upstream.origin import Origin


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://10.0.0.7:8000", Origin("10.0.0.7", 8000, False, b"10.0.0.7:8000", b"")),
        ("http://worker-0/", Origin("worker-0", 80, False, b"worker-0", b"")),
        ("https://gpu.example", Origin("gpu.example", 443, True, b"gpu.example", b"")),
        ("https://gpu.example:443/a/b/", Origin("gpu.example", 443, True, b"gpu.example", b"/a/b")),
        ("http://[::1]:8000", Origin("::1", 8000, False, b"[::1]:8000", b"")),
        ("http://[fe80::1%eth0]", Origin("fe80::1%eth0", 80, False, b"[fe80::1]", b"")),
        ("http://bücher.example", Origin("bücher.example", 80, False, b"xn--bcher-kva.example", b"")),
    ],
)
def test_an_origin_is_read_from_a_url(url: str, origin: Origin) -> None:
    """Host, port, scheme, host header and base path follow from the URL alone."""
    assert origin == Origin.from_url(url)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("10.0.0.7:8000", "must start with http:// or https://"),
        ("ftp://host", "must start with http:// or https://"),
        ("http://", "has no host"),
        ("http://user:secret@host", "must not contain credentials"),
        ("http://host/path?x=1", "a query or fragment"),
        ("http://host:99999", "Port out of range"),
        ("http://host/a b", "percent-encoded"),
    ],
)
def test_a_url_that_cannot_be_a_worker_is_refused(url: str, fault: str) -> None:
    """The message names the fault and never repeats the URL, which may carry a password."""
    with pytest.raises(ValueError, match=fault) as refusal:
        Origin.from_url(url)

    assert "secret" not in str(refusal.value)
