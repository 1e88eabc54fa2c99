"""What a caller wants its trace to be called by."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.proxy.incoming import LONG_BODY_BYTES
from gateway.proxy.tracing.labels import Labels, labels_of


def read(raw: bytes = b"{}", headers: Mapping[str, str] | None = None) -> Labels:
    return labels_of(lambda name: (headers or {}).get(name.decode()), raw)


def of_metadata(metadata: Any) -> Labels:
    return read(json.dumps({"model": "m", "metadata": metadata}).encode())


def test_metadata_of_the_body_is_read() -> None:
    """Known names become labels; other plain values are kept beside them."""
    assert Labels(
        session="s", user="u", name="n", tags=("a", "b"), metadata={"screen": "cart", "step": "3", "share": "0.5"}
    ) == of_metadata(
        {
            "session_id": "s",
            "trace_user_id": "u",
            "trace_name": "n",
            "tags": ["a", "", "b", {}],
            "screen": "cart",
            "step": 3,
            "share": 0.5,
            "nested": {"a": 1},
            "nothing": None,
        }
    )


def test_headers_count_before_the_body() -> None:
    raw = b'{"metadata":{"session_id":"of the body","trace_name":"of the body"}}'

    assert Labels(session="h", name="of the body", tags=("x", "y")) == read(
        raw, {"langfuse_session_id": "h", "langfuse_tags": "x, y"}
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b'--boundary "metadata"',
        b'{"metadata":[1]}',
        b'{"metadata":"x"}',
        b'{"metadata":null}',
        b'{"messages":[{"content":"the \\"metadata\\""}]}',
        b'{"metadata":{"tags":{}}}',
        b'{"metadata":"\xff"}',
    ],
)
def test_a_body_without_labels_has_none(raw: bytes) -> None:
    """Malformed metadata is not an error here; the worker may refuse it."""
    assert Labels() == read(raw)


def test_labels_are_short_and_few() -> None:
    """The limits are those of Langfuse."""
    labels = of_metadata({"session_id": "s" * 300, "tags": ["t"] * 50, **{f"k{i}": "v" for i in range(50)}})

    assert (200, 32, 32) == (len(labels.session or ""), len(labels.tags), len(labels.metadata))


def test_a_very_long_body_is_not_searched() -> None:
    """It would take too long; headers still count."""
    raw = b'{"metadata":{"trace_name":"n"},"x":"' + b"x" * LONG_BODY_BYTES + b'"}'

    assert Labels(session="h") == read(raw, {"langfuse_session_id": "h"})
