"""`python -m deploy.chart_readme`: write the README of the chart, with a table of its values in the form of helm-docs.

Keys, defaults and descriptions come from values.yaml, and types from values.schema.json. The description of a value is
the comment above it that begins with ``# --``.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parent / "helm" / "warmgate"
README = CHART / "README.md"

HEAD = """# warmgate

![Version: {version}](https://img.shields.io/badge/Version-{version}-informational)
![AppVersion: {app}](https://img.shields.io/badge/AppVersion-{app}-informational)

For operators: how to install Warmgate on Kubernetes with this chart, and every value of the chart.

{description}.

## Installing the chart

There is no public image and no public chart repository. Build the image from the repository's Dockerfile and push it.
Then install the chart from a checkout, or from the archive that `make release` makes:

```sh
helm upgrade --install warmgate deploy/helm/warmgate --namespace warmgate --create-namespace \\
  --set image.repository=registry.example.com/warmgate --values my-values.yaml
```

`my-values.yaml` has at least one model in `config.models`. The [guide](../../README.md) lists complete values files for
common clusters, and says how to size, watch and upgrade an installation. `config` takes every setting of the
[reference](../../../docs/reference/settings.md).

**Homepage:** <{home}>

## Requirements

Kubernetes: `{kube}`

## Values

| Key | Type | Default | Description |
|-----|------|---------|-------------|
"""
OLD_NAMES = """\
These values still work, and the notes of an installation name those that it uses.

| old | now |
|-----|-----|
| `replicas` | `replicaCount` |
| `probes.startup`, `probes.readiness`, `probes.liveness` | `startupProbe`, `readinessProbe`, `livenessProbe` |
| `ingress.hosts[]` and `ingress.paths[]` as text | `ingress.hosts[].host`, `ingress.hosts[].paths[].path` |
| `httpRoute.paths`, `httpRoute.filters` | `httpRoute.rules` |
"""
"""Table of the values that were renamed, with their new names."""
FOOT = "\nMade by `python -m deploy.chart_readme` from `values.yaml`.\n"
SHOWN_DEFAULT = 160
"""Maximum number of characters of a default in a table cell. For a longer default, the cell refers to values.yaml."""

_TYPES = {bool: "boolean", int: "integer", str: "string", list: "list", dict: "object"}
_KEY = re.compile(r"^( *)([\w-]+):")
_COMMENT = re.compile(r"^ *# ?(.*)$")
_TITLE = re.compile(r"^# ---- (.+)$")


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the chart, or a group of values with a description."""

    section: str
    """Title of the section of values.yaml that contains the value."""
    key: str
    type: str
    default: Any
    description: str
    group: bool = False

    @property
    def shown_default(self) -> str:
        """Default value for a table cell, which is empty for a group of values."""
        if self.group:
            return ""
        shown = json.dumps(self.default)
        return "see values.yaml" if len(shown) > SHOWN_DEFAULT else f"`{shown}`"


def values_of(text: str, schema: Mapping[str, Any]) -> Iterator[Value]:
    """Yield the values in *text*, the content of values.yaml, in their order. *schema* is the content of
    values.schema.json.
    """
    data = yaml.safe_load(text)
    path: list[tuple[int, str]] = []
    above: list[str] = []
    section = ""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if title := _TITLE.match(line):
            section = title[1]
        found = _KEY.match(line)
        if found is None:
            comment = _COMMENT.match(line)
            above = [*above, comment[1]] if comment else []
            continue
        indent = len(found[1])
        path = [*((at, name) for at, name in path if at < indent), (indent, found[2])]
        names = [name for _, name in path]
        group = _is_group(lines[number + 1 :], indent)
        description = _description(above)
        if description or not group:
            default = _at(data, names)
            kind = _type(schema, names) or _TYPES[type(default)]
            yield Value(section, ".".join(names), kind, default, description, group)
        above = []


def _type(schema: Mapping[str, Any], names: list[str]) -> str:
    """Return the type of the value with the path *names* in words, such as `integer or null`, or an empty string if
    *schema* does not contain it.
    """
    node: Mapping[str, Any] = schema
    for name in names:
        properties = _resolved(schema, node).get("properties", {})
        if name not in properties:
            return ""
        node = properties[name]
    return " or ".join(_types(schema, node))


def _types(schema: Mapping[str, Any], node: Mapping[str, Any]) -> list[str]:
    node = _resolved(schema, node)
    if "enum" in node:
        return [str(choice) or '""' for choice in node["enum"]]
    if "anyOf" in node:
        return list(dict.fromkeys(each for choice in node["anyOf"] for each in _types(schema, choice)))
    types = node["type"] if isinstance(node["type"], list) else [node["type"]]
    return ["list" if each == "array" else each for each in types]


def _resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *node*, or the definition in *schema* to which it refers."""
    reference: str | None = node.get("$ref")
    return node if reference is None else schema["definitions"][reference.rpartition("/")[2]]


def _description(above: list[str]) -> str:
    """Return the text after ``--`` in the comment lines *above* a key, or an empty string if no line has it."""
    starts = [number for number, line in enumerate(above) if line.startswith("-- ")]
    return " ".join(above[starts[-1] :]).removeprefix("-- ") if starts else ""


def _is_group(following: list[str], indent: int) -> bool:
    """Return whether the next line with a key is deeper than *indent*."""
    deeper = (found for found in map(_KEY.match, following) if found)
    first = next(deeper, None)
    return first is not None and len(first[1]) > indent


def _at(data: Any, names: list[str]) -> Any:
    for name in names:
        data = data[name]
    return data


def readme(chart: str, values: str, schema: str) -> str:
    """Return the README for the texts of Chart.yaml, values.yaml and values.schema.json."""
    about = yaml.safe_load(chart)
    head = HEAD.format(
        version=about["version"],
        app=about["appVersion"],
        description=about["description"],
        home=about["home"],
        kube=about["kubeVersion"],
    )
    rows = [_row(value) for value in values_of(values, json.loads(schema))]
    return f"{head}{chr(10).join(rows)}\n\n## Old names\n\n{OLD_NAMES}{FOOT}"


def _row(value: Value) -> str:
    cells = (value.key, value.type, value.shown_default, value.description)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    texts = [(CHART / name).read_text(encoding="utf-8") for name in ("Chart.yaml", "values.yaml", "values.schema.json")]
    README.write_text(readme(*texts), encoding="utf-8")
