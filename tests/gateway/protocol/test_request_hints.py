"""What callers say in headers of how they want to be served."""

import pytest

from gateway.protocol.errors import InvalidField
from gateway.protocol.request_hints import client_timeout_s, requested_first_token_s, requested_strategy, short_name


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({b"x-stainless-read-timeout": "600.0"}, 600.0),
        ({b"x-stainless-timeout": "30"}, 30.0),
        ({b"x-stainless-read-timeout": "never"}, None),
        ({b"x-stainless-read-timeout": "0"}, None),
        ({b"x-stainless-read-timeout": "inf"}, None),
        ({}, None),
    ],
)
def test_the_sdks_say_how_long_they_wait(headers: dict[bytes, str], expected: float | None) -> None:
    """SDKs write these headers, so values that are not understood are not errors."""
    assert expected == client_timeout_s(headers.get)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({b"x-warmgate-slo-ttft-ms": "250"}, 0.25),
        ({b"x-llm-d-slo-ttft-ms": "1500"}, 1.5),
        ({b"x-slo-ttft-ms": "1500"}, 1.5),
        ({b"x-warmgate-wanted-s": "1.5"}, 1.5),
        ({b"x-warmgate-slo-ttft-ms": "0"}, 0.0),
        ({b"x-warmgate-slo-ttft-ms": "250", b"x-llm-d-slo-ttft-ms": "900"}, 0.25),
        ({}, None),
    ],
)
def test_a_caller_may_give_a_target_time_to_first_token(headers: dict[bytes, str], expected: float | None) -> None:
    assert expected == requested_first_token_s(headers.get)


@pytest.mark.parametrize("said", ["soon", "", "-1", "inf", "nan"])
@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("x-warmgate-slo-ttft-ms", "milliseconds"),
        ("x-llm-d-slo-ttft-ms", "milliseconds"),
        ("x-warmgate-wanted-s", "seconds"),
    ],
)
def test_a_malformed_time_is_an_error_of_the_caller(name: str, unit: str, said: str) -> None:
    """Somebody wrote it by hand, and the message names the header."""
    with pytest.raises(InvalidField, match=f"must be a number of {unit}") as caught:
        requested_first_token_s({name.encode(): said}.get)

    assert name == caught.value.param


def test_a_strategy_is_asked_for_by_its_name() -> None:
    assert ["kv_aware", None] == [requested_strategy({b"x-warmgate-strategy": said}.get) for said in ("kv_aware", None)]
    with pytest.raises(InvalidField, match="must be one of round_robin"):
        requested_strategy({b"x-warmgate-strategy": "best"}.get)


def test_a_long_name_stands_for_itself_as_a_digest() -> None:
    """Short ones stay as they are."""
    assert "s" * 256 == short_name("s" * 256)
    assert short_name("s" * 257).startswith("blake2b:")
    assert short_name("s" * 257) == short_name("s" * 257) != short_name("s" * 258)
