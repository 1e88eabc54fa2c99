"""Table of the settings for the documentation, with its rows and groups, as shown in docs/reference/settings.md."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic.fields import FieldInfo

from gateway.protocol.field_names import Place, dotted
from gateway.settings.fields import entry_of, fields_of, type_name
from gateway.settings.names import variable_of
from gateway.settings.schema import Settings


@dataclass(frozen=True, slots=True)
class SettingRow:
    """Row of the settings table. An entry of a list has ``[]`` in *path* and 0 in *variable*."""

    path: str
    variable: str
    type: str
    default: str
    description: str


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """Group with the settings that it directly contains. An entry of a list has ``[]`` in *path*."""

    path: str
    description: str
    rows: tuple[SettingRow, ...]


def describe() -> list[SettingRow]:
    """Return a row for every setting, in the order of the settings file."""
    return list(_rows(Settings.model_fields, ()))


def groups() -> list[SettingGroup]:
    """Return the groups that directly contain settings, each with these settings, in the order of the settings file."""
    return [group for group in _groups(Settings.model_fields, ()) if group.rows]


def _groups(fields: Mapping[str, FieldInfo], above: Place) -> Iterator[SettingGroup]:
    for name, field in fields.items():
        place, inner = (*above, name), fields_of(field.annotation)
        if inner is None:
            place, inner = (*place, 0), fields_of(entry_of(field.annotation))
        if inner:
            direct = {name: field for name, field in inner.items() if not _is_group(field)}
            yield SettingGroup(_path(place), field.description or "", tuple(_rows(direct, place)))
            yield from _groups(inner, place)


def _is_group(field: FieldInfo) -> bool:
    return bool(fields_of(field.annotation) or fields_of(entry_of(field.annotation)))


def _path(place: Place) -> str:
    return dotted(place).replace("[0]", "[]")


def _rows(fields: Mapping[str, FieldInfo], above: Place) -> Iterator[SettingRow]:
    for name, field in fields.items():
        place = (*above, name)
        if inner := fields_of(field.annotation):
            yield from _rows(inner, place)
        elif inner := fields_of(entry_of(field.annotation)):
            yield from _rows(inner, (*place, 0))
        else:
            yield SettingRow(
                path=_path(place),
                variable=variable_of(place),
                type=type_name(field.annotation),
                default=_default_text(field),
                description=field.description or "",
            )


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "derived" if field.default_factory is not None else json.dumps(field.default)
