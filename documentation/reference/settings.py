"""Page docs/reference/settings.md: every setting, by group."""

from documentation.reference import markdown
from gateway.settings.table import SettingGroup, groups

_INTRODUCTION = """\
This page lists for operators every setting with its type, its default and its meaning.

Warmgate reads settings from one YAML file, which `warmgate serve --config FILE` names. Environment variables override
the settings file. The name of a variable is `WARMGATE_` and the path of the setting in upper case, with two underscores
between the levels, and a number for the entry of a list:

| setting | variable |
|---|---|
| `server.port` | `WARMGATE_SERVER__PORT` |
| `models[].strategy` of the first model | `WARMGATE_MODELS__0__STRATEGY` |

The following three commands check and describe settings files:

```sh
warmgate config validate --config warmgate.yaml   # prints faults and warnings
warmgate config show --config warmgate.yaml       # prints the settings in effect, with secrets masked
warmgate config schema > warmgate.schema.json     # the JSON Schema, for editors
```

[deploy/warmgate.example.yaml](../../deploy/warmgate.example.yaml) shows every setting in its place. The JSON Schema of
the settings is published as [warmgate.schema.json](warmgate.schema.json). The section [Groups](#groups) links to all
settings. In the path of a setting, `[]` stands for the entries of a list. A setting without a default is *required*. A
*derived*
default follows from other settings, as the meaning of the setting explains."""


def page() -> str:
    found = groups()
    return markdown.page("Settings", _INTRODUCTION, "## Groups", _index(found), *(_section(group) for group in found))


def _index(found: list[SettingGroup]) -> str:
    rows = [(f"[`{group.path}`](#{anchor(group.path)})", markdown.sentence(group.description)) for group in found]
    return markdown.table(("group", "contents"), rows)


def _section(group: SettingGroup) -> str:
    rows = [
        (
            markdown.code(row.path),
            row.type,
            row.default if row.default in ("required", "derived") else markdown.code(row.default),
            markdown.sentence(row.description),
        )
        for row in group.rows
    ]
    table = markdown.table(("setting", "type", "default", "meaning"), rows)
    return f"## `{group.path}`\n\n{markdown.sentence(group.description)}\n\n{table}"


def anchor(path: str) -> str:
    """Return the anchor of the group *path*, which the site generator derives from the heading."""
    return "".join(letter for letter in path if letter.isalnum() or letter in "_-")
