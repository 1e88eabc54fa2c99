"""Settings table of the documentation: its rows, and the page docs/reference/settings.md that contains it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic.fields import FieldInfo

from gateway.protocol.field_names import Place, dotted
from gateway.settings.fields import entry_of, fields_of, type_name
from gateway.settings.names import variable_of
from gateway.settings.schema import Settings

BEGIN: Final = "<!-- settings -->"
END: Final = "<!-- /settings -->"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One row of the settings table. An entry of a list has ``[]`` in *path* and 0 in *variable*."""

    path: str
    variable: str
    type: str
    default: str
    description: str


def describe() -> list[SettingRow]:
    """Return a row for every setting, in the order of the settings file."""
    return list(_rows(Settings.model_fields, ()))


def as_markdown() -> str:
    """Return the table of all settings in Markdown, as docs/reference/settings.md shows it."""
    lines = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    lines += [f"| `{row.path}` | {row.type} | {_code(row.default)} | {row.description} |" for row in describe()]
    return "\n".join(lines)


def with_table(page: str) -> str:
    """Return the Markdown *page* with the current settings table between its two markers.

    Raises:
        ValueError: if the page does not have each marker once, in the right order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        raise ValueError(f"The page must contain {BEGIN} and then {END}, each once")
    return f"{before}{BEGIN}\n{as_markdown()}\n{END}{after}"


def _rows(fields: Mapping[str, FieldInfo], above: Place) -> Iterator[SettingRow]:
    for name, field in fields.items():
        place = (*above, name)
        if inner := fields_of(field.annotation):
            yield from _rows(inner, place)
        elif inner := fields_of(entry_of(field.annotation)):
            yield from _rows(inner, (*place, 0))
        else:
            yield SettingRow(
                path=dotted(place).replace("[0]", "[]"),
                variable=variable_of(place),
                type=type_name(field.annotation),
                default=_default_text(field),
                description=field.description or "",
            )


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "derived" if field.default_factory is not None else json.dumps(field.default)


def _code(default: str) -> str:
    return default if default in ("required", "derived") else f"`{default}`"
