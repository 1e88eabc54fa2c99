"""Generator of JSON values that satisfy a JSON schema, for answers and for tool call arguments.

1. A value depends only on the schema, the seed and the richness.
2. The following keywords are supported: `const`, `enum`, `type`, `properties`, `required`, `items`, `prefixItems`,
   `anyOf`, `oneOf`, `allOf`, local `$ref`, and the limits of strings, numbers, arrays and objects.
3. Strings with a `pattern` come from a short list of candidates. The keywords `not`, `if` and `contains` are ignored.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

_WORDS = ("blue", "river", "stone", "light", "garden", "winter", "north", "paper", "silver", "morning")
_FORMATS: Mapping[str, str] = {
    "date-time": "2024-05-17T08:30:00Z",
    "date": "2024-05-17",
    "time": "08:30:00Z",
    "duration": "PT90S",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.7",
    "ipv6": "2001:db8::7",
    "uri": "https://example.com/7",
    "uuid": "2f1c7c1e-5b1d-4c7a-9d2e-0a6f3b8c4d5e",
}
_CANDIDATES: tuple[str, ...] = (
    *_WORDS,
    "Blue",
    "BLUE",
    "B",
    "b",
    "7",
    "42",
    "123",
    "1234",
    "12345",
    "7.5",
    "a1",
    "A-1",
    "a_b",
    "a-b",
)
_CANDIDATES += (*_FORMATS.values(), "+15550100123", "555-0100", "#a1b2c3", "EUR", "en-US", "v1.2.3", "1.2.3", "true")
_RICH_DEPTH = 3  # deeper, only what is required
_SMALL_DEPTH = 6  # deeper, the first branch that ends
_MAX_DEPTH = 40
_MAX_VALUES = 10_000
_MAX_STRING = 100_000
_TRIES = 20  # for a value that is not in the array yet
_BRANCHES = ("anyOf", "oneOf")


class SchemaUnsupported(ValueError):
    """Error: no value satisfies the JSON schema, or only values that this module does not generate."""


def value_for(schema: Any, *, seed: bytes, richness: int = 2) -> Any:
    """Return a value that satisfies *schema*: a minimal one with *richness* 0, one with optional properties with 2.

    Raises:
        SchemaUnsupported: if no value was found.
    """
    try:
        return _Generator(schema, seed, richness).value(schema, 0)
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError, ZeroDivisionError, RecursionError) as error:
        raise SchemaUnsupported(str(error)) from None


@dataclass(slots=True)
class _Generator:
    root: Any
    seed: bytes
    richness: int
    _drawn: int = field(default=0)
    _made: int = field(default=0)

    def value(self, schema: Any, depth: int) -> Any:
        self._made += 1
        if depth > _MAX_DEPTH or self._made > _MAX_VALUES:
            raise SchemaUnsupported("the schema is nested too deeply or requires too many values")
        if schema is False:
            raise SchemaUnsupported("the schema allows no value")
        if not isinstance(schema, Mapping):
            return self._word()
        schema = self._resolved(schema, depth)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._one_of(schema["enum"])
        return self._typed(self._type(schema, depth), schema, depth)

    def _typed(self, name: str, schema: Mapping[str, Any], depth: int) -> Any:
        if name == "object":
            return self._object(schema, depth)
        if name == "array":
            return self._array(schema, depth)
        if name in ("integer", "number"):
            return self._number(schema, whole=name == "integer")
        if name == "boolean":
            return self._draw(2) == 0
        return None if name == "null" else self._string(schema)

    def _draw(self, below: int) -> int:
        self._drawn += 1
        digest = blake2b(self.seed, digest_size=8, salt=self._drawn.to_bytes(8, "big")).digest()
        return int.from_bytes(digest, "big") % below

    def _one_of(self, options: Sequence[Any]) -> Any:
        return options[self._draw(len(options))]

    def _word(self) -> str:
        return str(self._one_of(_WORDS))

    def _resolved(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """Return *schema* with its references resolved and one alternative chosen."""
        for _ in range(_MAX_DEPTH):
            name = next((name for name in ("$ref", "allOf", *_BRANCHES) if schema.get(name)), None)
            if name is None:
                return schema
            rest = {key: value for key, value in schema.items() if key != name}
            given = schema[name]
            if name == "$ref":
                schema = _merged(self._referenced(given), rest)
            elif name == "allOf":
                for part in given:
                    rest = dict(_merged(part, rest))
                schema = rest
            else:
                schema = _merged(self._branch(given, depth), rest)
        raise SchemaUnsupported("the schema is infinitely recursive")

    def _branch(self, branches: Sequence[Any], depth: int) -> Any:
        possible = [branch for branch in branches if branch is not False]
        if not possible:
            raise SchemaUnsupported("the schema allows no value")
        if depth < _SMALL_DEPTH and self.richness:
            return self._one_of(possible)
        return min(possible, key=lambda branch: len(json.dumps(branch)) + 10_000 * ("$ref" in json.dumps(branch)))

    def _referenced(self, reference: Any) -> Any:
        """Return the part of the whole JSON schema to which the JSON pointer *reference* points."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise SchemaUnsupported(f"$ref: only references within the schema are supported, got {reference!r}")
        found = self.root
        for part in reference[1:].strip("/").split("/") if reference.strip("#/") else ():
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                raise SchemaUnsupported(f"$ref: {reference!r} is not in the schema")
            found = found[key]
        return found

    def _type(self, schema: Mapping[str, Any], depth: int) -> str:
        given = schema.get("type")
        if isinstance(given, list) and given:
            small = depth >= _SMALL_DEPTH or not self.richness
            given = "null" if small and "null" in given else self._one_of(given)
        if isinstance(given, str):
            return given
        for name, keywords in _TYPED_BY.items():
            if any(keyword in schema for keyword in keywords):
                return name
        return "string"

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = [name for name in schema.get("required") or () if isinstance(name, str)]
        names = [name for name in properties if name in required or self._is_listed(required, depth)]
        names += [name for name in required if name not in properties]
        more = schema.get("additionalProperties")
        unknown = more if isinstance(more, Mapping) else {}
        made = {name: self.value(properties.get(name, unknown), depth + 1) for name in names}
        for number in range(int(schema.get("minProperties") or 0)):
            if len(made) < schema["minProperties"]:
                made[f"{self._word()}_{number}"] = self.value(unknown, depth + 1)
        return made

    def _is_listed(self, required: Sequence[str], depth: int) -> bool:
        """Return whether to include an optional property of an object. If no property is required, all are included."""
        if depth >= _RICH_DEPTH or self.richness == 0:
            return False
        return not required or (self.richness > 1 and self._draw(2) == 0)

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        first = list(schema.get("prefixItems") or ())
        items = schema.get("items", True)
        fewest = max(int(schema.get("minItems") or 0), len(first))
        most = min(int(schema.get("maxItems", _MAX_VALUES)), len(first) if items is False else _MAX_VALUES)
        wanted = max(fewest, min(most, 1 + self._draw(2) if self.richness and depth < _SMALL_DEPTH else 0))
        if wanted > _MAX_VALUES or fewest > most:
            raise SchemaUnsupported("minItems: no value satisfies the minimum")
        made: list[Any] = []
        for number in range(wanted):
            made.append(self._item(first[number] if number < len(first) else items, made, schema, depth))
        return made

    def _item(self, schema: Any, before: Sequence[Any], array: Mapping[str, Any], depth: int) -> Any:
        for _ in range(_TRIES):
            made = self.value(schema, depth + 1)
            if not array.get("uniqueItems") or made not in before:
                return made
        raise SchemaUnsupported("uniqueItems: not enough distinct values were found")

    def _string(self, schema: Mapping[str, Any]) -> str:
        shortest, longest = int(schema.get("minLength") or 0), int(schema.get("maxLength", _MAX_STRING))
        if not shortest <= longest or shortest > _MAX_STRING:
            raise SchemaUnsupported("minLength: no value satisfies the minimum")
        if isinstance(schema.get("pattern"), str):
            return self._matching(schema["pattern"], shortest, longest)
        known = _FORMATS.get(str(schema.get("format")))
        if known is not None:
            return known
        text = " ".join(self._word() for _ in range(1 + self._draw(self.richness + 1)))
        return text[:longest].rstrip().ljust(shortest, "e")

    def _matching(self, pattern: str, shortest: int, longest: int) -> str:
        try:
            fits = re.compile(pattern).search
        except re.error:
            raise SchemaUnsupported(f"pattern: {pattern!r} is not a valid Python regular expression") from None
        repeated = (letter * length for length in range(1, 65) for letter in "aA0")
        for candidate in (*_CANDIDATES, "", *repeated):
            if shortest <= len(candidate) <= longest and fits(candidate):
                return candidate
        raise SchemaUnsupported(f"pattern: the simulator found no string that matches {pattern!r}")

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> int | float:
        low, high = _bounds(schema)
        step = schema.get("multipleOf") or (1 if whole else None)
        if step is None:
            sixteenths = 1 + self._draw(15)  # the bounds themselves may be excluded
            made: float = round(low + (high - low) * sixteenths / 16, 4)
            return made if low < made < high else low
        if whole and isinstance(step, float) and not step.is_integer():
            step = 1
        first, last = math.ceil(low / step), math.floor(high / step)
        first += first * step == schema.get("exclusiveMinimum")
        last -= last * step == schema.get("exclusiveMaximum")
        if last < first:
            raise SchemaUnsupported("no number satisfies minimum, maximum and multipleOf")
        multiple = (first + self._draw(last - first + 1)) * step
        return int(multiple) if whole else multiple


_TYPED_BY: Mapping[str, Sequence[str]] = {
    "object": ("properties", "required", "additionalProperties", "minProperties"),
    "array": ("items", "prefixItems", "minItems"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


def _bounds(schema: Mapping[str, Any]) -> tuple[float, float]:
    """Return the lower and upper bound of a number. If only one bound is given, the range is 100 wide."""
    lows = [schema[name] for name in ("minimum", "exclusiveMinimum") if _is_number(schema.get(name))]
    highs = [schema[name] for name in ("maximum", "exclusiveMaximum") if _is_number(schema.get(name))]
    if lows:
        return max(lows), min(highs, default=max(lows) + 100)
    high = min(highs, default=100)
    return (0 if high > 0 else high - 100), high


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _merged(schema: Any, more: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge two JSON schemas. For keywords other than ``properties``, the values of *more* win."""
    if not isinstance(schema, Mapping):
        return more
    merged = {**schema, **more}
    if "properties" in schema and "properties" in more:
        merged["properties"] = {**schema["properties"], **more["properties"]}
    if "required" in schema and "required" in more:
        merged["required"] = [*schema["required"], *more["required"]]
    return merged
