"""The head of a request."""

from typing import Any

from cache_index import WorkerId
from gateway.protocol.interruption import Interruption
from gateway.proxy.incoming import JSON, Incoming


async def _nothing() -> dict[str, Any]:
    raise AssertionError("only the head is read")


def incoming(*headers: tuple[bytes, bytes], query: bytes = b"") -> Incoming:
    scope = {
        "method": "POST",
        "path": "/v1/é",
        "raw_path": b"/v1/%C3%A9",
        "query_string": query,
        "headers": list(headers),
    }
    return Incoming(scope, _nothing)


def test_the_target_is_path_and_query_as_sent() -> None:
    """Percent-encoding is neither decoded nor added."""
    assert b"/v1/%C3%A9" == incoming().target
    assert b"/v1/%C3%A9?a=%20b" == incoming(query=b"a=%20b").target


def test_the_first_value_of_a_header_counts() -> None:
    """An empty value counts as absent."""
    head = incoming((b"x-session-id", b"s\xe9"), (b"x-session-id", b"other"), (b"x-empty", b""))

    assert "sé" == head.text_of(b"x-session-id")
    assert head.text_of(b"x-empty") is None
    assert head.text_of(b"x-absent") is None
    assert {b"x-session-id": b"s\xe9", b"x-empty": b""} == head.fields


def test_an_added_header_goes_to_workers() -> None:
    """The list of headers in the server's scope stays unchanged."""
    request = incoming((b"x-a", b"1"))
    before = request._scope["headers"]
    request.add(b"traceparent", b"00-1-2-00")

    assert [(b"x-a", b"1"), (b"traceparent", b"00-1-2-00")] == request.upstream_headers(b"r-1", JSON)[-2:]
    assert [(b"x-a", b"1")] == before


def test_a_safe_request_id_of_the_caller_is_kept() -> None:
    """An id that could break a header or a log line is replaced."""
    assert b"r-1" == incoming((b"x-request-id", b"r-1")).request_id
    assert incoming((b"x-request-id", b"a b")).request_id is None


def test_workers_get_no_credentials() -> None:
    """Workers get all other headers and the request id."""
    head = incoming((b"authorization", b"Bearer sk-secret"), (b"x-team", b"blue"))

    assert [(b"content-type", b"application/json"), (b"x-request-id", b"r-1"), (b"x-team", b"blue")] == (
        head.upstream_headers(b"r-1", JSON)
    )


def test_only_the_gateway_names_the_workers_of_a_request() -> None:
    """In the scope, which no caller can change."""
    assert incoming((b"workers", b"a")).workers is None
    assert (
        frozenset([WorkerId("a")]) == Incoming({"headers": [], "workers": frozenset([WorkerId("a")])}, _nothing).workers
    )


def test_only_a_gateway_in_front_of_a_picker_chooses_the_model() -> None:
    """The present name of the header counts before the former name. Other callers send the model in the body."""
    headers = [(b"x-gateway-model-name-rewrite", b"former"), (b"x-llm-d-model-name-rewrite", b"a" * 600)]
    both = Incoming({"headers": headers, "delivery": None}, _nothing)
    former = Incoming({"headers": headers[:1], "delivery": None}, _nothing)
    none = Incoming({"headers": [], "delivery": None}, _nothing)

    assert ("a" * 512, "former", None) == (both.chosen_model, former.chosen_model, none.chosen_model)
    assert incoming(*headers).chosen_model is None


def test_only_the_gateway_can_interrupt_a_request() -> None:
    interruption = Interruption(0.1)

    assert incoming((b"interruption", b"a")).interruption is None
    assert interruption is Incoming({"headers": [], "interruption": interruption}, _nothing).interruption
