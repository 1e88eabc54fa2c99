from typing import Any

from gateway.backends.bedrock.json_depth import is_deep, read_shallow_object


def nested(levels: int) -> Any:
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_depth_is_counted_in_arrays_and_objects() -> None:
    assert not is_deep(nested(3), levels=3)
    assert is_deep(nested(4), levels=3)
    assert not is_deep("text", levels=0)
    assert not is_deep({}, levels=3)


def test_what_is_deeper_than_python_can_follow_is_reported() -> None:
    assert is_deep(nested(100_000))


def test_an_object_is_read_from_text() -> None:
    assert {"a": [1, None]} == read_shallow_object('{"a": [1, null]}')


def test_what_is_no_object_or_too_deep_is_not_one() -> None:
    assert all(read_shallow_object(text) is None for text in ("", "[1]", "{", "3", '"x"', "null"))
    assert read_shallow_object('{"a":' * 101 + "{}" + "}" * 101) is None
    assert read_shallow_object('{"a":' * 100_000) is None
