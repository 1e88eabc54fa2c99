"""Whatever a caller sends: no 500, no hang, errors in the words of the API asked, and nothing shown to anybody else."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol.canonical_path import canonical
from gateway.protocol.endpoints.endpoint import JSON
from gateway.protocol.endpoints.faults import ANTHROPIC
from gateway.protocol.endpoints.table import ENDPOINTS
from tests.fuzz.bodies import (
    FORM_BODY,
    FORM_PATHS,
    FORM_TYPE,
    JSON_PATHS,
    VALID,
    form_types,
    forms,
    nearly_valid,
    texts,
)
from tests.fuzz.target import MARKER, Answer, Target, target

pytestmark = pytest.mark.e2e

unhurried = settings(deadline=None)
KEYS = [
    (b"authorization", b"Bearer sk-" + MARKER.encode()),
    (b"x-api-key", MARKER.encode()),
    (b"cookie", b"session=" + MARKER.encode()),
]
JSON_TYPE = (b"content-type", JSON)
SCORING = ("/generative_scoring", "/v1/decisions", "/v1/systemone")
Headers = list[tuple[bytes, bytes]]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Target]:
    with target() as running:
        yield running


def request(path: str, body: bytes, headers: Headers, *, method: str = "POST") -> bytes:
    if b"host" not in dict(headers):
        headers = [(b"host", b"localhost"), *headers]
    lines = [method.encode() + b" " + path.encode() + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in [*KEYS, *headers, (b"content-length", b"%d" % len(body))]]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _frames_nothing(name: bytes) -> bool:
    return name.lower() not in (b"content-length", b"transfer-encoding")


def _field_value(data: bytes) -> bytes:
    """*data* as what may stand in a header field."""
    return bytes(byte for byte in data if byte >= 0x20 and byte != 0x7F).strip()


def check(path: str, answer: Answer) -> None:
    """The facts that hold for every answer."""
    assert answer.status < 500, answer.body[:500]
    path = canonical(path, ENDPOINTS)
    if answer.status >= 400:
        assert b"application/json" == answer.headers[b"content-type"]
        error = answer.json["error"]
        assert isinstance(error["message"], str)
        assert error["message"]
        if path in ENDPOINTS and ENDPOINTS[path].errors is ANTHROPIC:
            assert "error" == answer.json["type"]
        else:
            assert {"message", "type", "param", "code"} <= set(error)
        if (answer.status, error.get("param")) != (404, "model"):  # in a damaged form the prompt may be its name
            assert MARKER.encode() not in answer.body


def test_what_the_others_change_is_right(gateway: Target) -> None:
    """Unchanged, every body is served, but for what the simulated worker does not know."""
    unknown = ("/classify", "/pooling", "/v1/audio/translations", "/v1/chat/completions/batch", "/v2/embed", *SCORING)
    asked = [
        (path, json.dumps({"model": "tiny", **body}).encode(), JSON) for path in JSON_PATHS for body in VALID[path]
    ]
    asked += [(path, FORM_BODY, FORM_TYPE) for path in FORM_PATHS]
    for path, body, content_type in asked:
        answer = gateway.ask(request(path, body, [(b"content-type", content_type)]))

        assert (404 if path in unknown else 200) == answer.status, (path, answer.body)
        check(path, answer)


@unhurried
@given(path=st.sampled_from(JSON_PATHS + FORM_PATHS), body=st.binary(max_size=200))
def test_any_bytes(gateway: Target, path: str, body: bytes) -> None:
    """What is no JSON is said to be none."""
    answer = gateway.ask(request(path, body, [JSON_TYPE]))

    check(path, answer)
    assert answer.status in (400, 415)


@unhurried
@given(path=st.sampled_from(JSON_PATHS), body=texts())
def test_any_json(gateway: Target, path: str, body: bytes) -> None:
    """Deep, huge, doubled, cut, with a mark before or a zero behind."""
    check(path, gateway.ask(request(path, body, [JSON_TYPE])))


@unhurried
@given(data=st.data(), path=st.sampled_from(JSON_PATHS))
def test_a_body_that_is_nearly_right(gateway: Target, data: st.DataObject, path: str) -> None:
    """Fields of another type, missing ones, and ones that no one knows."""
    check(path, gateway.ask(request(path, data.draw(nearly_valid(path)), [JSON_TYPE])))


@unhurried
@given(path=st.sampled_from(FORM_PATHS), body=forms, content_type=form_types)
def test_a_form_that_is_nearly_right(gateway: Target, path: str, body: bytes, content_type: bytes) -> None:
    """Boundaries that do not fit, parts without an end, names in every spelling."""
    check(path, gateway.ask(request(path, body, [(b"content-type", content_type)])))


_NAMES = [
    b"accept",
    b"accept-encoding",
    b"connection",
    b"content-encoding",
    b"content-language",
    b"content-type",
    b"expect",
    b"forwarded",
    b"host",
    b"keep-alive",
    b"origin",
    b"proxy-connection",
    b"range",
    b"te",
    b"trailer",
    b"traceparent",
    b"upgrade",
    b"x-data-parallel-rank",
    b"x-request-id",
    b"x-session-id",
    b"x-warmgate-worker",
    b"X-_!#$%&'*+.^`|~9",
]
_VALUES = [
    b"",
    b"1",
    b"-1",
    b"close",
    b"keep-alive, x-session-id, content-type",
    b"100-continue",
    b"gzip",
    b"identity",
    b"br, gzip",
    b"application/json",
    b"application/json; charset=utf-16",
    b"application/JSON;x",
    b"text/plain",
    b"multipart/form-data",
    b"application/vnd.api+json",
    b"h2c",
    b"websocket",
    b"[",
    b"http://[::1",
    b"a" * 20_000,
    b"\xe4\xff",
    b"a\tb",
    b"\xe2\x82\xac",
]
headers = st.lists(
    st.tuples(
        st.sampled_from(_NAMES) | st.from_regex(rb"[a-zA-Z-]{1,20}", fullmatch=True).filter(_frames_nothing),
        st.sampled_from(_VALUES) | st.binary(max_size=20).map(_field_value),
    ),
    max_size=12,
)


@unhurried
@given(path=st.sampled_from(JSON_PATHS), headers=headers)
def test_any_header(gateway: Target, path: str, headers: Headers) -> None:
    """Repeated, long, in no character set, and about the connection."""
    body = json.dumps({"model": "tiny", **VALID[path][0]}).encode()
    check(path, gateway.ask(request(path, body, [*headers, JSON_TYPE])))


_SEGMENTS = [
    "v1",
    "models",
    "responses",
    "tiny",
    "livez",
    "readyz",
    "metrics",
    "docs",
    "openapi.json",
    "chat",
    "completions",
    "messages",
    "cancel",
    "input_items",
    "..",
    ".",
    "",
    "%2e%2e",
    "%2F",
    "%00",
    "%ff",
    "%zz",
    "%",
    "%0d%0a",
    "~",
    "resp_1",
    "warmgate",
    "explain",
]
_paths = st.lists(st.sampled_from(_SEGMENTS), min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts))
_queries = st.sampled_from(
    ["", "?", "?stream=true", "?%00=%ff", "?a=b&a=c", "?starting_after=x", f"?key={MARKER}", "?" + "q" * 5000]
)
_methods = st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])


@unhurried
@given(method=_methods, path=_paths, query=_queries, headers=headers)
def test_any_path(gateway: Target, method: str, path: str, query: str, headers: Headers) -> None:
    """Asked in any way; a HEAD has no body."""
    answer = gateway.ask(request(path + query, b"", headers, method=method), method=method)

    assert answer.status < 500 or path == "/readyz"
    if method != "HEAD" and answer.status >= 400:
        check(path, answer)


def test_no_marker_is_in_the_metrics(gateway: Target) -> None:
    """After all of the above: a label is one of a closed set."""
    answer = gateway.ask(request("/metrics", b"", [], method="GET"), method="GET")

    assert 200 == answer.status
    assert MARKER.encode() not in answer.body
    assert len(answer.body) < 100_000
