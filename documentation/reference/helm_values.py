"""Page docs/reference/helm-values.md: every value of the Helm chart, by section of values.yaml."""

import json
from itertools import groupby

from deploy.chart_readme import CHART, OLD_NAMES, Value, values_of
from documentation.reference import markdown

_INTRODUCTION = """\
This page lists for operators every value of the Helm chart with type, default and meaning.

The chart is in [deploy/helm/warmgate](../../deploy/helm/warmgate/README.md). Only `image.repository` and
`config.models` are required. `config` takes every [setting](settings.md) of Warmgate. The tables below contain only the
settings that the chart sets.

Helm checks values against the chart's JSON Schema, and the chart checks rules between values. Invalid values are
reported before anything is installed. To see the manifests without an installation, run:

```sh
helm template warmgate deploy/helm/warmgate --values my-values.yaml
```"""


def page() -> str:
    text, schema = ((CHART / name).read_text(encoding="utf-8") for name in ("values.yaml", "values.schema.json"))
    sections = [
        _section(title, list(values))
        for title, values in groupby(values_of(text, json.loads(schema)), lambda value: value.section)
    ]
    return markdown.page("Helm values", _INTRODUCTION, *sections, f"## Old names\n\n{OLD_NAMES}")


def _section(title: str, values: list[Value]) -> str:
    rows = [(markdown.code(value.key), value.type, value.shown_default, value.description) for value in values]
    return f"## {title}\n\n{markdown.table(('value', 'type', 'default', 'meaning'), rows)}"
