"""What is wrong with a body, in sentences."""

import pytest

from gateway.api.admin_v1.bodies import KeyBody, TeamBody
from gateway.api.admin_v1.json_body import parsed
from gateway.protocol.errors import InvalidField, MalformedBody


@pytest.mark.parametrize(
    ("raw", "param", "message"),
    [
        (b"{}", "name", "'name' is missing; it must be given."),
        (b"[]", None, "The body must be an object."),
        (b'"x"', None, "The body must be an object."),
        (
            b'{"name": "b", "weigth": 2}',
            "weigth",
            "'weigth' is not known here; did you mean 'weight'.",
        ),
        (
            b'{"name": "b", "limits": {"tokens_per_min": 5}}',
            "limits.tokens_per_min",
            "'limits.tokens_per_min' is not known here; did you mean 'tokens_per_minute'.",
        ),
        (b'{"name": "b", "limits": 5}', "limits", "'limits' must be an object."),
        (b'{"name": "b", "weight": "hea\\tvy"}', "weight", "'weight' is not valid: the value must be a valid number."),
        (
            b'{"name": "b", "priority": "urgent"}',
            "priority",
            "'priority' is not valid: the value must be 'high', 'normal' or 'low'.",
        ),
        (
            b'{"name": "b", "models": ["a", "*"], "limits": {"concurrent": 0}}',
            "limits.concurrent",
            "'limits.concurrent' is not valid: the value must be greater than or equal to 1.",
        ),
        (
            b'{"name": "b c"}',
            "name",
            "'name' is not valid: "
            "the value must be a name of up to 63 letters (at least one), digits, dots, dashes and "
            "underscores.",
        ),
        (
            b'{"name": "b", "model_limits": {"x*": {}}}',
            "model_limits.x*",
            "'model_limits.x*' is not valid: the value must be a name without '*' (patterns are for aliases).",
        ),
    ],
)
def test_the_field_is_named(raw: bytes, param: str | None, message: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parsed(TeamBody, raw)

    assert (param, message) == (caught.value.param, caught.value.message)


def test_all_faults_are_reported_but_not_at_any_length() -> None:
    """The first one is the param."""
    with pytest.raises(InvalidField) as caught:
        parsed(TeamBody, b'{"name": "b", ' + b", ".join(b'"x%d": 1' % i for i in range(9)) + b"}")

    assert "x0" == caught.value.param
    assert 5 == caught.value.message.count("is not known here")


@pytest.mark.parametrize("raw", [b"", b"{", b"nul", b"[" * 100_000, b'{"name": "\\ud800"}', b"\xff", b'{"name": NaN}'])
def test_what_is_no_json(raw: bytes) -> None:
    with pytest.raises((MalformedBody, InvalidField)) as caught:
        parsed(TeamBody, raw)

    assert 400 == caught.value.status


@pytest.mark.parametrize(
    "raw",
    [
        b'{"team": "t", "secret": "hunter2"}',
        b'{"team": "hunter2!"}',
        b'{"team": "t", "expires_at": "hunter2"}',
        b'{"team": "t", "networks": ["hunter2"]}',
        b'{"team": "t", "limits": "hunter2"}',
        b'{"team": "t", "priority": "hunter2"}',
        b'{"team": "t", "strategies": ["hunter2"]}',
        b'"hunter2"',
        b'{"team": hunter2}',
    ],
)
def test_no_value_is_repeated(raw: bytes) -> None:
    """It may be a secret that was put into the wrong place."""
    with pytest.raises((InvalidField, MalformedBody)) as caught:
        parsed(KeyBody, raw)

    assert "hunter2" not in f"{caught.value!r} {caught.value.message} {caught.value.param}"
    assert caught.value.__cause__ is None


def test_a_long_name_is_cut() -> None:
    """Names are what the caller makes of them."""
    with pytest.raises(InvalidField) as caught:
        parsed(TeamBody, b'{"name": "b", "%s": 1}' % (b"x" * 5000))

    assert 200 > len(caught.value.message)
    assert "x" * 100 + "..." == caught.value.param
