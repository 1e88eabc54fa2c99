import pytest

from gateway.settings import SettingsError, build
from gateway.settings.removed import REMOVED, take_removed

MODELS = {"models": [{"name": "tiny", "workers": [{"url": "http://a"}]}]}
VARIABLE = "WARMGATE_SERVER__IMPLEMENTATION"
NO_EFFECT = "is deprecated and has no effect: the gateway serves with uvicorn only. Remove this setting."
GONE = "this setting was removed: the gateway serves with uvicorn only. Remove it."


def test_what_is_now_always_so_is_ignored_with_a_warning() -> None:
    """In the file and as a variable; the settings are those without it, and the file's own data stay as they are."""
    data = {**MODELS, "server": {"port": 9000, "implementation": "uvicorn"}}
    warnings: list[str] = []

    settings = build(data, {VARIABLE: "uvicorn"}, warn=warnings.append)

    assert build({**MODELS, "server": {"port": 9000}}, {}) == settings == build(data, {})
    assert [f"server.implementation {NO_EFFECT}", f"{VARIABLE} (server.implementation) {NO_EFFECT}"] == warnings
    assert {"port": 9000, "implementation": "uvicorn"} == data["server"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("granian", "'granian'"),
        ("hypercorn", "'hypercorn'"),
        (None, "empty"),
        (3, "a single value"),
        ("a" * 100, f"'{'a' * 76}..."),
    ],
)
def test_anything_else_is_refused(value: object, shown: str) -> None:
    """Once, with what is wrong and what to do; beside other faults."""
    with pytest.raises(SettingsError) as raised:
        build({**MODELS, "server": {"port": -1, "implementation": value}}, {})

    assert [
        f"server.implementation is {shown}; {GONE}",
        "server.port is -1; it must be at least 0.",
    ] == raised.value.sentences


def test_a_variable_is_named_where_it_is_at_fault() -> None:
    """Also where the file has the value that is ignored."""
    with pytest.raises(SettingsError) as raised:
        build({**MODELS, "server": {"implementation": "uvicorn"}}, {VARIABLE: "granian"})

    assert [f"{VARIABLE} (server.implementation) is 'granian'; {GONE}"] == raised.value.sentences


@pytest.mark.parametrize("data", [{}, {"server": None}, {"server": [1]}, {"server": {"port": 1}}])
def test_what_was_never_set_is_not_spoken_of(data: dict[str, object]) -> None:
    """A group that is none has a fault of its own."""
    assert ([], []) == take_removed(data, {"PATH": "/bin"})
    assert 1 == len(REMOVED)
