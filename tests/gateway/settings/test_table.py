from gateway.settings.table import describe, groups
from tests.gateway.settings.examples import sentences


def test_every_setting_is_described() -> None:
    """The table of docs/reference/settings.md is made of these rows."""
    rows = {row.path: row for row in describe()}

    assert [] == [row.path for row in rows.values() if not row.description]
    port = rows["server.port"]
    assert ("WARMGATE_SERVER__PORT", "integer", "8080") == (port.variable, port.type, port.default)
    key = rows["models[].workers[].api_key"]
    assert ("WARMGATE_MODELS__0__WORKERS__0__API_KEY", "secret text or null", "null") == (
        key.variable,
        key.type,
        key.default,
    )
    assert "required" == rows["models[].name"].default
    assert "derived" == rows["models[].upstream_model"].default
    assert "list of text" == rows["models[].aliases"].type
    assert "text or json" == rows["logging.format"].type


def test_every_described_variable_is_one_that_is_read() -> None:
    """Each is known: it may be refused for its value, not for its name."""
    for row in describe():
        assert "is not a setting" not in " ".join(sentences(**{row.variable: "~", "WARMGATE_SERVER__PORT": "x"}))


def test_a_group_has_only_its_own_settings() -> None:
    """Groups inside it follow, with all their settings: no setting is lost, and none stands twice."""
    found = {group.path: group for group in groups()}
    own = {row.path for row in found["models[].workers[]"].rows}

    assert "models[].workers[].url" in own
    assert "models[].workers[].kv_events.endpoint" not in own
    assert "model servers that serve the model" == found["models[].workers[]"].description
    assert sorted(row.path for row in describe()) == sorted(row.path for group in groups() for row in group.rows)
