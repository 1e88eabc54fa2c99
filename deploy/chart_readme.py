"""`python -m deploy.chart_readme`: write the README of the chart, with a table of its values in the form of helm-docs.

Keys, defaults and descriptions come from values.yaml. The description of a value is the comment on its line, or else
the lines of comments directly above.
"""

import json
import re
from collections.abc import Iterator
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
OLD_NAMES = """
## Old names

These values still work, and the notes of an installation name those that it uses.

| old | now |
|-----|-----|
| `replicas` | `replicaCount` |
| `probes.startup`, `probes.readiness`, `probes.liveness` | `startupProbe`, `readinessProbe`, `livenessProbe` |
| `ingress.hosts[]` and `ingress.paths[]` as text | `ingress.hosts[].host`, `ingress.hosts[].paths[].path` |
| `httpRoute.paths`, `httpRoute.filters` | `httpRoute.rules` |

Made by `python -m deploy.chart_readme` from `values.yaml`.
"""
TYPES = {bool: "bool", int: "int", float: "float", str: "string", list: "list", dict: "object", type(None): "string"}
SHOWN_DEFAULT = 160
"""Characters up to which a table cell shows a default. Beyond that, it refers to values.yaml."""

_KEY = re.compile(r"^( *)([\w-]+):(.*)$")
_COMMENT = re.compile(r"(?:^| {2,})# ?(.*)$")


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the chart, or a group of values with a description."""

    key: str
    default: Any
    description: str
    group: bool = False

    def row(self) -> str:
        """Return the line of the table for this value."""
        shown = json.dumps(self.default)
        if len(shown) > SHOWN_DEFAULT:
            shown = "see values.yaml"
        default = "" if self.group else f"`{shown}`"
        cells = (self.key, TYPES[type(self.default)], default, self.description)
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def values_of(text: str) -> Iterator[Value]:
    """Yield the values of values.yaml in the order of its *text*."""
    data = yaml.safe_load(text)
    path: list[tuple[int, str]] = []
    above: list[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = _KEY.match(line)
        if found is None:
            comment = re.match(r"^ *# ?(?!-)(.*)$", line)
            above = [*above, comment[1]] if comment else []
            continue
        indent = len(found[1])
        path = [*((at, name) for at, name in path if at < indent), (indent, found[2])]
        names = [name for _, name in path]
        group = _is_group(lines[number + 1 :], indent)
        beside = _COMMENT.search(found[3])
        description = _escaped(beside[1] if beside else " ".join(above))
        if description or not group:
            yield Value(".".join(names), _at(data, names), description, group)
        above = []


def _is_group(following: list[str], indent: int) -> bool:
    """Return whether the next line with a key is deeper than *indent*."""
    deeper = (found for found in map(_KEY.match, following) if found)
    first = next(deeper, None)
    return first is not None and len(first[1]) > indent


def _at(data: Any, names: list[str]) -> Any:
    for name in names:
        data = data[name]
    return data


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").strip()


def readme(chart: str, values: str) -> str:
    """Return the README for the texts of Chart.yaml and values.yaml."""
    about = yaml.safe_load(chart)
    head = HEAD.format(
        version=about["version"],
        app=about["appVersion"],
        description=about["description"],
        home=about["home"],
        kube=about["kubeVersion"],
    )
    return head + "\n".join(value.row() for value in values_of(values)) + "\n" + OLD_NAMES


if __name__ == "__main__":
    texts = [(CHART / name).read_text(encoding="utf-8") for name in ("Chart.yaml", "values.yaml")]
    README.write_text(readme(*texts), encoding="utf-8")
