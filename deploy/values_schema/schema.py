"""The schema of `config` in the chart's values.schema.json, made from the settings.

Helm then refuses unknown settings and wrong values when it renders, before a pod is replaced. What JSON Schema cannot
express, and rules between settings, are still checked by the gateway alone.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.protocol.field_names import Place
from gateway.settings.fields import annotation_at, groups_of
from gateway.settings.removed import REMOVED
from gateway.settings.renamed import ANY, MODEL_BEDROCK, RENAMED, RenamedSetting
from gateway.settings.schema import Settings

PATH = Path(__file__).parents[1] / "helm" / "warmgate" / "values.schema.json"
_DESCRIPTIVE = ("title", "description", "default", "format", "writeOnly")


def settings_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of the settings, and the definitions that it refers to.

    Descriptions are left out: docs/reference/settings.md has them. Removed settings may have the value that the
    gateway ignores; renamed ones are there under both names.
    """
    schema = _bare(Settings.model_json_schema(ref_template="#/definitions/{model}"))
    definitions: dict[str, Any] = schema.pop("$defs")
    for removed in REMOVED:
        group = schema["properties"][removed.group]["$ref"].rpartition("/")[2]
        definitions[group]["properties"][removed.name] = {"const": removed.ignored}
    for renamed in (*RENAMED, RenamedSetting(MODEL_BEDROCK, ("models", ANY, "fallbacks", ANY, "bedrock"))):
        for group in _groups_at(renamed.old[:-1]):
            new = _property(definitions, renamed.new)
            former = {each: name for name, each in renamed.values.items()}
            if "enum" in new and former:
                new = {**new, "enum": [former.get(each, each) for each in new["enum"]]}
            if renamed.new[-1] in definitions[group]["properties"] or renamed.old[:-1] != renamed.new[:-1]:
                definitions[group]["properties"][str(renamed.old[-1])] = new
    return schema, definitions


def _groups_at(place: Place) -> list[str]:
    """Return the names of the groups at *place*, where `ANY` stands for an entry."""
    return [group.__name__ for group in groups_of(annotation_at(_first_entry(place)))]


def _property(definitions: Mapping[str, Any], place: Place) -> dict[str, Any]:
    found = (definitions[group]["properties"].get(place[-1]) for group in _groups_at(place[:-1]))
    return next(dict(each) for each in found if each is not None)


def _first_entry(place: Place) -> Place:
    """Return *place* with an entry in place of each `ANY`: the first of a list, any name of a mapping."""
    return tuple(
        "name" if place[depth - 1] == "model_limits" and step == ANY else 0 if step == ANY else step
        for depth, step in enumerate(place)
    )


def with_settings(schema: Mapping[str, Any]) -> dict[str, Any]:
    """*schema* of the chart's values with that of the settings in the place of `config`."""
    config, definitions = settings_schema()
    properties = dict(schema["properties"]) | {"config": config}
    return dict(schema) | {"properties": properties, "definitions": definitions}


def written(schema: Mapping[str, Any]) -> str:
    """Return *schema* as the file has it."""
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
