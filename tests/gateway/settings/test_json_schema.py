import json
from pathlib import Path

import pytest

from gateway.settings.json_schema import published_schema, settings_schema, written

ROOT = Path(__file__).parents[3]


def test_the_published_file_is_up_to_date() -> None:
    """`warmgate config schema > docs/reference/warmgate.schema.json` writes it."""
    assert written(published_schema()) == (ROOT / "docs/reference/warmgate.schema.json").read_text(encoding="utf-8")


def test_a_published_setting_has_its_description_default_and_bounds() -> None:
    port = published_schema()["$defs"]["ServerSettings"]["properties"]["port"]

    assert "TCP port that the gateway listens on. Use 0 for any free port." == port["description"]
    assert (8080, 0, 65_535) == (port["default"], port["minimum"], port["maximum"])


def test_a_former_name_is_in_the_schema_beside_the_new_one() -> None:
    limits = published_schema()["$defs"]["LimitSettings"]["properties"]

    assert limits["concurrent"] == limits["max_concurrent_requests"]


@pytest.mark.parametrize("word", ["description", "default", "title"])
def test_the_schema_of_the_chart_has_no_descriptions(word: str) -> None:
    schema, definitions = settings_schema()

    assert f'"{word}": "' not in json.dumps([schema, definitions])
    assert "#/definitions/ServerSettings" == schema["properties"]["server"]["$ref"]
