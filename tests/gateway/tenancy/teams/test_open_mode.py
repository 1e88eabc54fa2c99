import pytest

from gateway.protocol.errors import Forbidden
from gateway.tenancy.teams.open_mode import OF_PROXIES, OpenMode, is_loopback

LOCAL = {b"host": b"localhost:8080"}
POST = {**LOCAL, b"content-length": b"2", b"content-type": b"application/json"}


def refused(
    mode: OpenMode, fields: dict[bytes, bytes], peer: str | None = "127.0.0.1", *, is_http_1_0: bool = False
) -> str | None:
    """What a request is refused with; None if it is served."""
    try:
        mode.check(fields, peer, is_http_1_0=is_http_1_0)
    except Forbidden as refusal:
        return f"{refusal.status} {refusal.code} {refusal.message}"
    return None


@pytest.mark.parametrize(
    "host", [b"localhost", b"LocalHost:1", b"127.0.0.1", b"127.8.8.8:8080", b"[::1]", b"[::1]:8080", b"127.0.0.1:"]
)
@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_this_machine_may_ask(host: bytes, peer: str) -> None:
    """All of its names and addresses are accepted."""
    assert is_loopback(host)
    assert refused(OpenMode(), {**POST, b"host": host}, peer) is None


@pytest.mark.parametrize(
    "host",
    [
        *[b"", b"evil.example", b"localhost.evil.example", b"127.evil.example", b"127.0.0.1.evil.example", b"[::2]"],
        *[b"::1", b"0.0.0.0", b"10.0.0.1", b"[::1", b"[::1]x", b"xlocalhost", b"127.0.0.256"],
    ],
)
def test_another_name_of_this_machine_may_not_be_used(host: bytes) -> None:
    """A page can have its own name resolve to 127.0.0.1; so can a proxy that passes names on."""
    text = refused(OpenMode(), {**POST, b"host": host})

    assert text is not None
    assert text.startswith("403 open_mode ")
    assert "not for localhost" in text
    assert "server.open_mode" in text


@pytest.mark.parametrize("peer", ["192.0.2.1", "2001:db8::1", "0.0.0.0", "", "localhost"])
def test_other_machines_are_refused(peer: str) -> None:
    assert "this request comes from" in (refused(OpenMode(), POST, peer) or "")


@pytest.mark.parametrize("name", sorted(OF_PROXIES))
def test_headers_of_proxies_close_it(name: bytes) -> None:
    """Whatever stands there, and also where the peer has no address."""
    assert name.decode() in (refused(OpenMode(), {**POST, name: b""}) or "")
    assert refused(OpenMode(), {**POST, name: b"127.0.0.1"}, None) is not None


def test_nginx_is_known_by_its_defaults() -> None:
    """Others that speak HTTP/1.0, as ab does, are served."""
    closing = {**POST, b"connection": b"Close"}

    assert "nginx" in (refused(OpenMode(), closing, is_http_1_0=True) or "")
    assert refused(OpenMode(), closing) is None
    assert refused(OpenMode(), POST, is_http_1_0=True) is None


@pytest.mark.parametrize(
    "said",
    [
        {b"origin": b"https://evil.example"},
        {b"origin": b"http://localhost:3000"},
        {b"origin": b"null"},
        {b"sec-fetch-site": b"cross-site"},
        {b"sec-fetch-site": b"same-site"},
    ],
)
@pytest.mark.parametrize("is_network", [True, False])
def test_pages_of_other_origins_may_not_ask(said: dict[bytes, bytes], is_network: bool) -> None:
    """Unless the settings name them; a page may not ask for this because it runs on this machine."""
    text = refused(OpenMode(is_network=is_network, origins=["https://chat.example"]), POST | said)

    assert "server.cors_origins" in (text or "")
    assert refused(OpenMode(is_network=is_network, origins=["*"]), POST | said) is None


def test_pages_that_may_ask_are_served() -> None:
    """Those of this gateway, and those that the settings name."""
    mode = OpenMode(origins=["https://chat.example"])
    cross_site = {b"sec-fetch-site": b"cross-site"}

    assert refused(mode, POST | {b"origin": b"http://localhost:8080", b"sec-fetch-site": b"same-origin"}) is None
    assert refused(mode, POST | {b"origin": b"https://chat.example"} | cross_site) is None
    assert refused(mode, POST | cross_site) is not None


def test_a_body_has_a_content_type() -> None:
    """Without one a page could send it and not ask before."""
    for body in ({b"content-length": b"2"}, {b"transfer-encoding": b"chunked"}):
        assert "content-type" in (refused(OpenMode(), LOCAL | body) or "")
    assert refused(OpenMode(), LOCAL | {b"content-length": b"0"}) is None
    assert refused(OpenMode(), LOCAL) is None


def test_on_a_network_everybody_may_ask() -> None:
    """If the settings say so: by any name, from anywhere, through proxies."""
    fields = {**POST, b"host": b"gateway.example", b"x-forwarded-for": b"192.0.2.1", b"connection": b"close"}

    assert refused(OpenMode(is_network=True), fields, "192.0.2.1", is_http_1_0=True) is None
