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
        "server.port is -1; the value must be at least 0.",
    ] == raised.value.sentences


def test_a_variable_is_named_where_it_is_at_fault() -> None:
    """Also where the file has the value that is ignored."""
    with pytest.raises(SettingsError) as raised:
        build({**MODELS, "server": {"implementation": "uvicorn"}}, {VARIABLE: "granian"})

    assert [f"{VARIABLE} (server.implementation) is 'granian'; {GONE}"] == raised.value.sentences


def test_a_secret_is_refused_without_its_value() -> None:
    """No value at all is ignored with a warning."""
    warnings: list[str] = []
    build({**MODELS, "server": {"admin_token": None}}, {}, warn=warnings.append)
    with pytest.raises(SettingsError) as raised:
        build({**MODELS, "server": {"admin_token": "s3cret"}}, {"WARMGATE_SERVER__ADMIN_TOKEN": "s3cret-2"})
    reason = "/warmgate/explain takes admin.keys, and /admin/v1/workers replaces /warmgate/workers"

    assert [f"server.admin_token is deprecated and has no effect: {reason}. Remove this setting."] == warnings
    assert [
        f"server.admin_token is set; this setting was removed: {reason}. Remove it.",
        f"WARMGATE_SERVER__ADMIN_TOKEN (server.admin_token) is set; this setting was removed: {reason}. Remove it.",
    ] == raised.value.sentences


@pytest.mark.parametrize("data", [{}, {"server": None}, {"server": [1]}, {"server": {"port": 1}}])
def test_what_was_never_set_is_not_spoken_of(data: dict[str, object]) -> None:
    """A group that is not one has a fault of its own."""
    assert ([], []) == take_removed(data, {"PATH": "/bin"})
    assert 2 == len(REMOVED)


def test_a_fallback_is_not_priced_by_the_hour() -> None:
    """Its tokens would cost nothing, and spill.usd_per_hour would bound nothing."""
    bedrock = {"model_id": "m", "region": "r", "price": {"gpu_hour_usd": 2.5}}
    with pytest.raises(SettingsError) as refused:
        build({"models": [{"name": "tiny", "fallbacks": [{"bedrock": bedrock}]}]}, {})

    assert [
        "models[0].fallbacks[0].bedrock.price.gpu_hour_usd is a single value; this setting was removed: a fallback is "
        "priced by its tokens. Remove it."
    ] == refused.value.sentences


def test_a_limit_in_dollars_needs_prices() -> None:
    """A warning, as long as a limit without effect is allowed."""
    warnings: list[str] = []
    fallbacks = [{"bedrock": {"model_id": "m", "region": "r", "price": price}} for price in ({"output_usd": 1}, {})]
    model = {"name": "tiny", "fallbacks": fallbacks, "spill": {"usd_per_hour": 1}}
    build({"models": [model]}, {}, warn=warnings.append)
    build({"models": [{**model, "spill": {}}]}, {}, warn=warnings.append)

    place = "models[0].fallbacks[1].bedrock"
    assert [f"models[0].spill.usd_per_hour does not bound {place}, which has no price: set {place}.price."] == warnings
