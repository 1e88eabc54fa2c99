"""Error messages for an invalid configuration.

No message contains a secret. Values of secrets, values of unknown keys (which may be misspelled secrets) and addresses
with credentials are left out.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import SecretStr
from pydantic_core import ErrorDetails

from gateway.protocol.field_names import Place, did_you_mean, dotted, listed
from gateway.settings.fields import KIND, annotation_at, bare, entry_of, fields_of, groups_by_kind, split_kind
from gateway.settings.names import PREFIX
from gateway.settings.schema import Settings
from gateway.settings.table import describe

LONGEST_VALUE = 80  # characters of a value that a sentence repeats: a line of a terminal


class SettingsError(Exception):
    """The configuration is invalid. *sentences* contain one error message for each fault."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = list(sentences)


_ALLOWED: Final[dict[str, str]] = {
    "int_type": "the value must be an integer",
    "int_from_float": "the value must be an integer",
    "float_type": "the value must be a number",
    "finite_number": "the value must be a finite number",
    "bool_type": "the value must be true or false",
    "string_type": "the value must be text (write it in quotes)",
    "tuple_type": "the value must be a list",
    "model_type": "the value must be a mapping",
    "model_attributes_type": "the value must be a mapping",
    "dict_type": "the value must be a mapping",
    "greater_than": "the value must be greater than {gt:g}",
    "greater_than_equal": "the value must be at least {ge:g}",
    "less_than_equal": "the value must be at most {le:g}",
    "literal_error": "allowed are {expected}",
    "rule": "{allowed}",
    "rule_on_private_value": "{allowed}",
}


def sentences_of(error: ErrorDetails, origins: Mapping[Place, str]) -> Iterator[str]:
    """Yield the error messages for *error*. *origins* maps settings to the environment variables that set them."""
    place, kind = split_kind(error["loc"])
    match error["type"]:
        case "default_factory_not_called":
            return  # follows from another fault, which has its own sentence
        case "contradiction":
            for found in error["ctx"]["contradictions"]:
                end = f" {_named((*place, *found.other), origins)}" if found.other else ""
                yield f"{_named((*place, *found.place), origins)} {found.text}{end}."
        case "extra_forbidden" if kind is not None and (others := _kinds_with(place)):
            yield f"{_named(place, origins)} is allowed only for kind {' or '.join(others)}, but this kind is {kind}."
        case "extra_forbidden" | "invalid_key":
            yield f"{_named(place, origins)} is not a setting{_nearest_setting(place)}."
        case "missing":
            yield f"{_named(place, origins)} is missing; it must be given."
        case "union_tag_not_found":
            yield f"{_named((*place, KIND), origins)} is missing; it must be given."
        case "union_tag_invalid":
            tag, allowed = _cut(repr(error["ctx"]["tag"])), error["ctx"]["expected_tags"]
            yield f"{_named((*place, KIND), origins)} is {tag}; allowed are {allowed}."
        case rule:
            allowed = _ALLOWED[rule].format(**error.get("ctx", {})) if rule in _ALLOWED else error["msg"]
            yield f"{_named(place, origins)} is {_shown(error, place)}; {allowed}."


def unknown_variable(variable: str) -> str:
    """Return the error message for a ``WARMGATE_*`` variable that names no setting."""
    return f"{variable} is not a setting{_nearest_variable(variable)}."


def kind_of(value: Any) -> str:
    """Return a description of the type of *value*, such as "a list", that does not show the content."""
    match value:
        case None:
            return "empty"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return "a single value"


def _shown(error: ErrorDetails, place: Place) -> str:
    """Return the invalid value in the form for an error message, or a description if the value could be secret."""
    value, annotation = error["input"], annotation_at(place)
    if isinstance(value, dict | list) or value is None:
        return kind_of(value)
    if error["type"] == "rule_on_private_value" or bare(annotation) is SecretStr or _holds_groups(annotation):
        return "not valid"
    return _cut(repr(value) if isinstance(value, str) else str(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _holds_groups(annotation: Any) -> bool:
    """Return whether a group or a list of groups is expected. A single value in its place could be a secret."""
    return bool(fields_of(annotation) or fields_of(entry_of(annotation)))


def _named(place: Place, origins: Mapping[Place, str]) -> str:
    """Return the setting as the operator wrote it: its environment variable, or its place in the settings file."""
    for depth in range(len(place), 0, -1):
        if place[:depth] in origins:
            return f"{origins[place[:depth]]} ({dotted(place)})"
    return dotted(place)


def _kinds_with(place: Place) -> list[str]:
    """Return the kinds of guardrails (or of other unions) at *place* that have the setting."""
    groups = groups_by_kind(annotation_at(place[:-1]))
    return [kind for kind, group in groups.items() if place[-1] in group.model_fields]


def _nearest_setting(place: Place) -> str:
    siblings = fields_of(annotation_at(place[:-1])) or {}
    name = str(place[-1])
    near = did_you_mean(name, siblings)
    if near:
        return near
    elsewhere = [row.path for row in describe() if row.path.split(".")[-1] == name]
    return f"; did you mean {elsewhere[0]!r}" if elsewhere else f"; allowed are {listed(siblings)}"


def _nearest_variable(variable: str) -> str:
    numbers = re.findall(r"(?<=__)\d+(?=__|$)", variable)
    pattern = re.sub(r"(?<=__)\d+(?=__|$)", "0", variable)
    # A setting without its group, or else the most similar one.
    near = [row.variable for row in describe() if row.variable.split("__")[1:] == [pattern.removeprefix(PREFIX)]]
    if not near:
        near = difflib.get_close_matches(pattern, [row.variable for row in describe()], n=1, cutoff=0.75)
    if not near:
        last = pattern.removeprefix(PREFIX).split("__")[-1]
        near = [row.variable for row in describe() if row.variable.split("__")[-1] == last][:1]
    if not near:
        return f"; variables begin with one of {listed(PREFIX + name.upper() for name in Settings.model_fields)}"
    remaining = iter(numbers)
    return f"; did you mean {re.sub(r'(?<=__)0(?=__|$)', lambda _: next(remaining, '0'), near[0])}"
