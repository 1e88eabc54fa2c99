"""Error messages for invalid bodies and queries. The messages name the invalid field and never repeat its value."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.protocol.errors import ClientError, InvalidField, MalformedBody
from gateway.protocol.field_names import Place, did_you_mean, dotted

MOST_SENTENCES = 5
LONGEST_NAME = 100  # characters of a name that the caller chose

_NO_STEPS = frozenset({"body", "query", "path"})
"""Prefixes that FastAPI puts before the name of a parameter."""


def fault_of(errors: Sequence[Mapping[str, Any]], names: Iterable[str]) -> ClientError:
    """Return the error for pydantic's non-empty list *errors*. *names* are the field names that can be suggested."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return MalformedBody("The body is not JSON")
    known = list(names)
    shown = errors[:MOST_SENTENCES]  # a sentence may take long: it looks for names that are similar
    sentences = [_sentence(error, _place(error["loc"]), known) for error in shown]
    return InvalidField(" ".join(dict.fromkeys(sentences)), param=_shown(_place(first["loc"])) or None)


def _place(location: Sequence[str | int]) -> Place:
    """Return *location* without the parts that pydantic adds for types, such as ``[key]`` after an invalid name."""
    steps = tuple(step for step in location if step != "[key]")
    return steps[1:] if steps and steps[0] in _NO_STEPS else steps


def _sentence(error: Mapping[str, Any], place: Place, names: Sequence[str]) -> str:
    name = _shown(place)
    match error["type"]:
        case "extra_forbidden":
            return f"{name!r} is not known here{did_you_mean(str(place[-1])[:LONGEST_NAME], names)}."
        case "missing":
            return f"{name!r} is missing; it must be given."
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"{f'{name!r}' if name else 'The body'} must be an object."
        case "rule" | "rule_on_private_value":
            return f"{name!r} is not valid: {error['ctx']['allowed']}."
        case _:
            return f"{name!r} is not valid: {error['msg'].replace('Input should', 'the value must')}."


def _shown(place: Place) -> str:
    text = dotted(place)
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}..."
