"""Schema of `config` in the Helm chart's values.schema.json, generated from the settings.

Helm then refuses unknown settings and wrong values when it renders, before a pod is replaced. What JSON Schema cannot
express, and rules between settings, are still checked by the gateway alone.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.settings.json_schema import settings_schema, written

PATH = Path(__file__).parents[1] / "helm" / "warmgate" / "values.schema.json"


def with_settings(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the *schema* of the chart's values, with the schema of the settings as `config`."""
    config, definitions = settings_schema()
    properties = dict(schema["properties"]) | {"config": config}
    return dict(schema) | {"properties": properties, "definitions": definitions}


def main() -> None:
    PATH.write_text(written(with_settings(json.loads(PATH.read_text(encoding="utf-8")))), encoding="utf-8")
