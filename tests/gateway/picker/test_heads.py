"""Envoy changes only the headers that differ."""

from gateway.picker.heads import HeaderChanges, answer_changes, request_changes, without_length


def test_a_worker_gets_the_headers_of_the_call() -> None:
    """Headers of the connection stay as they are, because Envoy sets them."""
    received = [
        *((b":path", b"/v1/x"), (b"host", b"h"), (b"connection", b"close"), (b"content-length", b"3")),
        *((b"authorization", b"Bearer caller"), (b"cookie", b"c"), (b"x-kept", b"1"), (b"x-changed", b"1")),
    ]
    wanted = [(b"x-kept", b"1"), (b"x-changed", b"2"), (b"authorization", b"Bearer worker")]

    assert HeaderChanges(
        [
            (b"x-changed", b"2"),
            (b"authorization", b"Bearer worker"),
            (b":path", b"/base/v1/x"),
            (b"content-length", b"5"),
        ],
        [b"cookie"],
    ) == request_changes(received, wanted, path=b"/base/v1/x", length=5)
    assert HeaderChanges([], []) == request_changes([(b"content-length", b"3")], [], path=None, length=3)
    assert HeaderChanges([], []) == request_changes([(b"content-length", b"3")], [], path=None, length=None)


def test_a_body_of_unknown_length_has_no_length() -> None:
    changes = HeaderChanges([(b"x", b"1")], [b"cookie"])

    assert changes == without_length([(b"x-kept", b"1")], changes)
    assert HeaderChanges(changes.set, [b"cookie", b"content-length"]) == without_length(
        [(b"content-length", b"3")], changes
    )


def test_a_repeated_header_is_replaced_as_a_whole() -> None:
    received = [(b"a", b"1"), (b"a", b"2")]

    assert [] == request_changes(received, [(b"a", b"1"), (b"a", b"2")], path=None, length=0).set
    assert [(b"a", b"1"), (b"a", b"3")] == request_changes(
        received, [(b"a", b"1"), (b"a", b"3")], path=None, length=0
    ).set


def test_a_caller_gets_only_the_headers_that_the_gateway_passes_on() -> None:
    """A cookie of a worker would apply to the gateway's origin."""
    received = [(b":status", b"200"), (b"date", b"d"), (b"x-envoy-a", b"1"), (b"set-cookie", b"c"), (b"x", b"1")]

    assert HeaderChanges([(b"y", b"2")], [b"set-cookie"]) == answer_changes(received, [(b"x", b"1"), (b"y", b"2")])
