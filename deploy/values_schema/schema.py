"""The schema of `config` in the chart's values.schema.json, made from the settings.

Helm then refuses unknown settings and wrong values when it renders, before a pod is replaced. What JSON Schema cannot
express, and rules between settings, are still checked by the gateway alone.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.settings.removed import REMOVED
from gateway.settings.schema import Settings

PATH = Path(__file__).parents[1] / "helm" / "warmgate" / "values.schema.json"
_DESCRIPTIVE = ("title", "description", "default", "format", "writeOnly")


def settings_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of the settings, and the definitions that it refers to. Descriptions are left out: README has them.

    Removed settings may have the value that the gateway ignores.
    """
    schema = _bare(Settings.model_json_schema(ref_template="#/definitions/{model}"))
    definitions: dict[str, Any] = schema.pop("$defs")
    for removed in REMOVED:
        group = schema["properties"][removed.group]["$ref"].rpartition("/")[2]
        definitions[group]["properties"][removed.name] = {"const": removed.ignored}
    return schema, definitions


def with_settings(schema: Mapping[str, Any]) -> dict[str, Any]:
    """*schema* of the chart's values with that of the settings in the place of `config`."""
    config, definitions = settings_schema()
    properties = dict(schema["properties"]) | {"config": config}
    return dict(schema) | {"properties": properties, "definitions": definitions}


def written(schema: Mapping[str, Any]) -> str:
    """As the file has it."""
    return json.dumps(schema, indent=2) + "\n"


def _bare(node: Any) -> Any:
    """*node* of a schema without what only describes. Names of properties are no keywords."""
    if isinstance(node, list):
        return [_bare(each) for each in node]
    if not isinstance(node, dict):
        return node
    named = ("properties", "$defs", "definitions")
    return {
        key: {name: _bare(each) for name, each in value.items()} if key in named else _bare(value)
        for key, value in node.items()
        if key not in _DESCRIPTIVE
    }


def main() -> None:
    PATH.write_text(written(with_settings(json.loads(PATH.read_text(encoding="utf-8")))), encoding="utf-8")
