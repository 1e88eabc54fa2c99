"""JSON Schema of the settings, for editors, for `warmgate config schema`, and for the values of the Helm chart.

JSON Schema cannot express rules between settings: `warmgate config validate` checks those too.
"""

import json
from collections.abc import Mapping
from typing import Any

from gateway.protocol.field_names import Place
from gateway.settings.fields import annotation_at, groups_of
from gateway.settings.removed import REMOVED
from gateway.settings.renamed import ANY, MODEL_BEDROCK, RENAMED, RenamedSetting
from gateway.settings.schema import Settings

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DESCRIPTIVE = frozenset({"title", "description", "default", "format", "writeOnly"})


def published_schema() -> dict[str, Any]:
    """Return the JSON Schema of a settings file, with descriptions and defaults for editors."""
    schema = Settings.model_json_schema()
    for group in schema["properties"].values():
        if "$ref" in group:
            group.pop("default", None)  # the settings of the group have their own
    _add_former_names(schema["properties"], schema["$defs"])
    return {"$schema": DIALECT, **schema, "title": "Settings of Warmgate"}


def written(schema: Mapping[str, Any]) -> str:
    """Return the JSON Schema *schema* as text for a file."""
    return json.dumps(schema, indent=2) + "\n"


def settings_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON Schema of the settings without descriptions, and the definitions to which it refers.

    References start with ``#/definitions/``, as in the schema of the Helm chart's values.
    """
    schema = _bare(Settings.model_json_schema(ref_template="#/definitions/{model}"))
    definitions: dict[str, Any] = schema.pop("$defs")
    _add_former_names(schema["properties"], definitions)
    return schema, definitions


def _add_former_names(groups: Mapping[str, Any], definitions: dict[str, Any]) -> None:
    """Add removed settings with the value that the gateway ignores, and renamed settings under their former names."""
    for removed in REMOVED:
        group = groups[removed.group]["$ref"].rpartition("/")[2]
        definitions[group]["properties"][removed.name] = {"const": removed.ignored}
    for renamed in (*RENAMED, RenamedSetting(MODEL_BEDROCK, ("models", ANY, "fallbacks", ANY, "bedrock"))):
        for group in _groups_at(renamed.old[:-1]):
            new = _property(definitions, renamed.new)
            former = {each: name for name, each in renamed.values.items()}
            if "enum" in new and former:
                new = {**new, "enum": [former.get(each, each) for each in new["enum"]]}
            if renamed.new[-1] in definitions[group]["properties"] or renamed.old[:-1] != renamed.new[:-1]:
                definitions[group]["properties"][str(renamed.old[-1])] = new


def _groups_at(place: Place) -> list[str]:
    """Return the names of the groups at *place*, in which `ANY` stands for any entry."""
    return [group.__name__ for group in groups_of(annotation_at(_first_entry(place)))]


def _property(definitions: Mapping[str, Any], place: Place) -> dict[str, Any]:
    found = (definitions[group]["properties"].get(place[-1]) for group in _groups_at(place[:-1]))
    return next(dict(each) for each in found if each is not None)


def _first_entry(place: Place) -> Place:
    """Return *place* with an entry in place of each `ANY`: the first entry of a list, or any name in a mapping."""
    return tuple(
        "name" if place[depth - 1] in {"model_limits", "project_limits"} and step == ANY else 0 if step == ANY else step
        for depth, step in enumerate(place)
    )


def _bare(node: Any) -> Any:
    """Return *node* of a schema without the keywords that only describe it. Names of properties are not keywords."""
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
