"""Facts about requests that the console refuses before it looks at them."""

import pytest

from gateway.api.admin_access import AdminKey
from gateway.console.request_checks import RequestRefused, check_csrf, check_host, check_origin, host_name
from gateway.console.sessions import Session

ALLOWED = frozenset({"gateway.example.com", "10.1.2.3"})


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:1", "[::1]", "[::1]:8080"),
        *("gateway.example.com", "Gateway.Example.com:443", "gateway.example.com.", "10.1.2.3:8080"),
    ],
)
def test_an_allowed_host_is_answered_on_any_port(host: str) -> None:
    check_host({"host": host}, ALLOWED)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example.com", "gateway.example.com.evil.net", "localhost.evil.net:8080", "127.0.0.1.nip.io"),
        *("127.0.0.2", "[::2]", "0.0.0.0", "<script>"),
    ],
)
def test_a_foreign_host_is_refused(host: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        check_host({"host": host}, ALLOWED)

    assert 421 == caught.value.status


@pytest.mark.parametrize("headers", [{}, {"host": ""}, {"host": ":8080"}])
def test_a_request_without_a_host_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(RequestRefused) as caught:
        check_host(headers, ALLOWED)

    assert 400 == caught.value.status


def test_a_refused_host_is_quoted_in_part() -> None:
    with pytest.raises(RequestRefused) as caught:
        check_host({"host": "x" * 5000}, ALLOWED)

    assert len(caught.value.message) < 250


def test_a_host_name_has_no_port() -> None:
    assert ["a", "[::1]", ""] == [host_name(host) for host in (" A.:80 ", "[::1]:80", "")]


HOST = {"host": "127.0.0.1:8080"}


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-origin", "origin": "https://changed-by-a-proxy.example.com"},
        {"origin": "http://127.0.0.1:8080"},
        {"origin": "https://127.0.0.1:8080"},
    ],
)
def test_a_request_of_its_own_pages_is_served(headers: dict[str, str]) -> None:
    check_origin({**HOST, **headers})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8081"},
        {"origin": "http://127.0.0.1"},
        {"origin": "http://evil.example.com"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8080"},
    ],
)
def test_a_request_of_another_page_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(RequestRefused) as caught:
        check_origin({**HOST, **headers})

    assert 403 == caught.value.status


@pytest.mark.parametrize("given", ["", "CSRF", "csrf2", "ümlaut"])
def test_a_form_of_another_session_is_refused(given: str) -> None:
    session = Session(AdminKey("ow", "owner", "s"), "csrf", created_at=0, used_at=0, digest=b"")
    check_csrf("csrf", session)

    with pytest.raises(RequestRefused):
        check_csrf(given, session)
