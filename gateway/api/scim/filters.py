"""Filters of SCIM (RFC 7644, section 3.4.2.2), such as ``userName eq "alice" and active eq true``."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from gateway.api.scim.faults import ScimFault

Json = dict[str, Any]
Predicate = Callable[[Mapping[str, Any]], bool]

MAX_FILTER: Final = 2_000
"""Maximum number of characters of a filter."""
MAX_DEPTH: Final = 8
"""Maximum nesting of parentheses."""
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[()\[\]]|\.[A-Za-z][\w$-]*(?=[\s\]]|$)|[^\s()\[\]"]+)')
_CORE = re.compile(r"urn:ietf:params:scim:schemas:core:2\.0:(?:user|group):", re.IGNORECASE)
_EXTENSION = re.compile(r"(urn:[^ ]*:[A-Za-z]+):([A-Za-z][\w.$-]*)")
_PATH = re.compile(r"[A-Za-z][\w$-]*(\.[A-Za-z][\w$-]*)?")


def tokens(text: str) -> list[str]:
    """Return the tokens of a filter or path.

    Raises:
        ScimFault: ``invalidFilter`` if *text* is too long or contains an open text.
    """
    found: list[str] = []
    place, text = 0, text.rstrip()
    if len(text) > MAX_FILTER:
        raise _invalid("is too long")
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise _invalid("contains a text without an end")
        found.append(match[1])
        place = match.end()
    return found


def predicate(text: str) -> Predicate:
    """Return the function that decides whether a resource matches the filter *text*.

    Raises:
        ScimFault: ``invalidFilter`` if *text* is not a filter.
    """
    return predicate_of(tokens(text))


def predicate_of(said: Sequence[str]) -> Predicate:
    """Return the function for the tokens of a filter, as `predicate` does."""
    parser = _Parser(said)
    made = parser.disjunction(0)
    if not parser.is_done:
        raise _invalid("has words after its end")
    return made


def path_of(said: str) -> tuple[str, ...]:
    """Return the names on the attribute path *said*, of which the first is that of a top-level attribute.

    Raises:
        ScimFault: ``invalidPath`` if *said* is not an attribute path.
    """
    short = _CORE.sub("", said, count=1)
    extension = _EXTENSION.fullmatch(short)
    if extension is not None:
        return extension[1], *extension[2].split(".", 1)
    if not _PATH.fullmatch(short):
        raise ScimFault(400, f"The path {said[:100]!r} is not an attribute.", "invalidPath")
    return tuple(short.split("."))


def values_at(resource: Mapping[str, Any], path: Sequence[str]) -> list[Any]:
    """Return all values of *resource* at *path*. Names ignore case, and lists are searched item by item."""
    found: list[Any] = [resource]
    for name in path:
        found = [value for each in found if isinstance(each, Mapping) for value in _named(each, name)]
    return found


def _named(resource: Mapping[str, Any], name: str) -> list[Any]:
    folded = name.casefold()
    value = next((value for key, value in resource.items() if key.casefold() == folded), None)
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


class _Parser:
    """Recursive parser of a filter."""

    def __init__(self, said: Sequence[str]) -> None:
        self._said = said
        self._place = 0

    @property
    def is_done(self) -> bool:
        return self._place == len(self._said)

    def disjunction(self, depth: int) -> Predicate:
        if depth > MAX_DEPTH:
            raise _invalid("is nested too deeply")
        parts = [self._conjunction(depth)]
        while self._takes("or"):
            parts.append(self._conjunction(depth))
        return parts[0] if len(parts) == 1 else lambda resource: any(part(resource) for part in parts)

    def _conjunction(self, depth: int) -> Predicate:
        parts = [self._negation(depth)]
        while self._takes("and"):
            parts.append(self._negation(depth))
        return parts[0] if len(parts) == 1 else lambda resource: all(part(resource) for part in parts)

    def _negation(self, depth: int) -> Predicate:
        if self._takes("not"):
            part = self._group(depth)
            return lambda resource: not part(resource)
        return self._group(depth)

    def _group(self, depth: int) -> Predicate:
        if not self._takes("("):
            return self._comparison(depth)
        part = self.disjunction(depth + 1)
        self._expect(")")
        return part

    def _comparison(self, depth: int) -> Predicate:
        path = path_of(self._next())
        if self._takes("["):
            part = self.disjunction(depth + 1)
            self._expect("]")
            return lambda resource: any(part(each) for each in values_at(resource, path) if isinstance(each, Mapping))
        name = self._next().lower()
        if name == "pr":
            return lambda resource: any(each not in ("", None, {}) for each in values_at(resource, path))
        compare = _OPERATORS.get(name)
        if compare is None:
            raise _invalid(f"uses the operator {name[:20]!r}, which does not exist")
        wanted = _literal(self._next())
        return lambda resource: compare(_plain(values_at(resource, path)), wanted)

    def _next(self) -> str:
        if self.is_done:
            raise _invalid("ends too early")
        self._place += 1
        return self._said[self._place - 1]

    def _takes(self, word: str) -> bool:
        if self.is_done or self._said[self._place].lower() != word:
            return False
        self._place += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            raise _invalid(f"lacks a {word!r}")


def _plain(values: list[Any]) -> list[Any]:
    """Return *values*, of which objects are replaced by their main attribute ``value`` (RFC 7644, section 3.4.2.2)."""
    return [each.get("value") if isinstance(each, Mapping) else each for each in values]


def _literal(said: str) -> Any:
    try:
        value = msgspec.json.decode(said.encode())
    except (msgspec.DecodeError, UnicodeError):
        raise _invalid(
            "compares with a value that is neither a text in double quotes, nor a number, true or false"
        ) from (None)
    return value.casefold() if isinstance(value, str) else value


def _any(compare: Callable[[Any, Any], bool]) -> Callable[[list[Any], Any], bool]:
    """Return the comparison of several values, at least one of which must match. Texts ignore case."""

    def compared(values: list[Any], wanted: Any) -> bool:
        folded = (each.casefold() if isinstance(each, str) else each for each in values)
        return any(type(each) is type(wanted) and compare(each, wanted) for each in folded)

    return compared


def _of_texts(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, wanted: isinstance(value, str) and compare(value, wanted)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, wanted: isinstance(value, str | int | float) and compare(value, wanted)


_OPERATORS: Final[dict[str, Callable[[list[Any], Any], bool]]] = {
    "eq": _any(operator.eq),
    "ne": lambda values, wanted: not _any(operator.eq)(values, wanted),
    "co": _any(_of_texts(lambda value, wanted: wanted in value)),
    "sw": _any(_of_texts(lambda value, wanted: value.startswith(wanted))),
    "ew": _any(_of_texts(lambda value, wanted: value.endswith(wanted))),
    "gt": _any(_ordered(operator.gt)),
    "ge": _any(_ordered(operator.ge)),
    "lt": _any(_ordered(operator.lt)),
    "le": _any(_ordered(operator.le)),
}


def _invalid(what: str) -> ScimFault:
    return ScimFault(400, f"The filter {what}.", "invalidFilter")
