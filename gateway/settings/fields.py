"""Types of settings: the type of each setting, and whether a type is a group, a list or text."""

from copy import copy
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from gateway.protocol.field_names import Place
from gateway.settings.schema import Settings

KIND: Final = "kind"
"""Name of the field that distinguishes the groups of a union."""


def annotation_at(place: Place) -> Any:
    """Return the type of the setting at *place*, or None if no such setting exists."""
    annotation: Any = Settings
    for step in place:
        if isinstance(step, int):
            annotation = entry_of(annotation)
        elif (value := value_of(annotation)) is not None:
            annotation = value
        else:
            field = (fields_of(annotation) or {}).get(str(step))
            annotation = field.annotation if field is not None else None
        if annotation is None:
            return None
    return annotation


def fields_of(annotation: Any) -> dict[str, FieldInfo] | None:
    """Return the fields of a group, or of all groups of a union. For other types, return None."""
    groups = groups_of(annotation)
    if len(groups) == 1:
        return groups[0].model_fields
    fields: dict[str, FieldInfo] = {}
    for group in groups:
        for name, field in group.model_fields.items():
            fields[name] = _either(fields[name], field) if name in fields else field
    return fields or None


def _either(one: FieldInfo, other: FieldInfo) -> FieldInfo:
    """Return *one*, with the choices of *other* added if both fields are choices."""
    if get_origin(one.annotation) is not Literal or get_origin(other.annotation) is not Literal:
        return one
    both = copy(one)
    both.annotation = Literal[tuple(dict.fromkeys((*get_args(one.annotation), *get_args(other.annotation))))]
    return both


def groups_of(annotation: Any) -> tuple[type[BaseModel], ...]:
    """Return the groups that *annotation* allows: one for a group, several for a union, and none for other types."""
    if get_origin(annotation) is Annotated:
        return groups_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return tuple(group for option in get_args(annotation) for group in groups_of(option))
    return (annotation,) if isinstance(annotation, type) and issubclass(annotation, BaseModel) else ()


def groups_by_kind(annotation: Any) -> dict[str, type[BaseModel]]:
    """Return the groups of a union by the value of their field ``kind``. For other types, return an empty dict."""
    groups = groups_of(annotation)
    if len(groups) < 2:
        return {}
    return {kind: group for group in groups for kind in get_args(group.model_fields[KIND].annotation)}


def split_kind(loc: Place) -> tuple[Place, str | None]:
    """Return the place of a setting for the pydantic error location *loc*, and the kind of the union there, or None.

    For a union, pydantic inserts the kind of the group into the location.
    """
    annotation: Any = Settings
    for depth, step in enumerate(loc):
        if step in groups_by_kind(annotation):
            return (*loc[:depth], *loc[depth + 1 :]), str(step)
        annotation = annotation_at(loc[: depth + 1])
    return loc, None


def entry_of(annotation: Any) -> Any:
    """Return the type of a list's entries. For other types, return None."""
    bare_type = bare(annotation)
    return get_args(bare_type)[0] if get_origin(bare_type) is tuple else None


def value_of(annotation: Any) -> Any:
    """Return the type of a mapping's values, or None for other types. Operators choose the keys of a mapping."""
    bare_type = bare(annotation)
    return get_args(bare_type)[1] if get_origin(bare_type) is dict else None


def bare(annotation: Any) -> Any:
    """Return *annotation* without ``Annotated`` and ``| None``."""
    if get_origin(annotation) is Annotated:
        return bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return bare(next(option for option in get_args(annotation) if option is not NoneType))
    return annotation


def is_optional(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation)


def is_text(annotation: Any) -> bool:
    bare_type = bare(annotation)
    return bare_type in (str, SecretStr) or get_origin(bare_type) is Literal


_TYPE_NAMES: Final[dict[Any, str]] = {
    str: "text",
    SecretStr: "secret text",
    int: "integer",
    float: "number",
    bool: "true or false",
}


def type_name(annotation: Any) -> str:
    bare_type = bare(annotation)
    if is_optional(annotation):
        return f"{type_name(bare_type)} or null"
    if get_origin(bare_type) is Literal:
        return " or ".join(get_args(bare_type))
    if (entry := entry_of(bare_type)) is not None:
        return f"list of {type_name(entry)}"
    return _TYPE_NAMES.get(bare_type, "mapping")
