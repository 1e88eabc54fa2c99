"""The types of the settings: which stands where, and what a group, a list, a text is."""

from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from gateway.settings.names import Place
from gateway.settings.schema import Settings


def annotation_at(place: Place) -> Any:
    """The type of the setting at *place*, None when there is none."""
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
    group = group_of(annotation)
    return group.model_fields if group is not None else None


def group_of(annotation: Any) -> type[BaseModel] | None:
    bare_type = bare(annotation)
    return bare_type if isinstance(bare_type, type) and issubclass(bare_type, BaseModel) else None


def entry_of(annotation: Any) -> Any:
    """The type of a list's entries, None for what is no list."""
    bare_type = bare(annotation)
    return get_args(bare_type)[0] if get_origin(bare_type) is tuple else None


def value_of(annotation: Any) -> Any:
    """The type of a mapping's values, whose keys are names of the operator's own; None for what is no such mapping."""
    bare_type = bare(annotation)
    return get_args(bare_type)[1] if get_origin(bare_type) is dict else None


def bare(annotation: Any) -> Any:
    """*annotation* without ``Annotated`` and without ``| None``."""
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
