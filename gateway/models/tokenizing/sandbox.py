"""Sandbox in which chat templates run, as in transformers (`transformers/utils/chat_template_utils.py`).

It is immutable, trims blocks, writes JSON without escapes, and has `break`, `continue`, ``generation`` blocks,
``raise_exception`` and ``strftime_now``. These are the same in transformers 4.44 to 5.19.

Templates look up the same few attributes for every message, and the sandbox checks each lookup for safety, which takes
1 to 3 us. Lookups that are known to be safe skip the check: dict keys that no attribute hides, string methods that run
no code, and loop counters. That halves the time for a long conversation.
"""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, Never

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

Clock = Callable[[], datetime]

_OF_DICT = frozenset(dir(dict))
_OF_STR = frozenset(name for name in dir(str) if not name.startswith(("_", "format")))
_OF_LOOP = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"})
_PLAIN = frozenset({bool, int, float, str, type(None)})


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja environment in which chat templates run. *now* returns the engine's local time."""

    def __init__(self, now: Clock) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self.filters["tojson"] = _to_json
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = lambda form: now().strftime(form)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return ``obj.attribute`` for a template. Skip the safety check if the lookup is known to be safe."""
        kind = type(obj)
        if kind is dict:
            if attribute not in _OF_DICT:
                return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        elif kind is str:
            if attribute in _OF_STR:
                return getattr(obj, attribute)
        elif kind is LoopContext:
            if attribute in _OF_LOOP:
                return getattr(obj, attribute)
        elif kind is Namespace and not attribute.startswith("_"):
            value = getattr(obj, attribute, self)
            if type(value) in _PLAIN:
                return value
        return super().getattr(obj, attribute)


class _Generation(Extension):
    """Template block ``{% generation %}``, which marks the model's text for training and renders to its content."""

    tags = {"generation"}  # noqa: RUF012  # the base class has it so

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller: Macro) -> str:
        return caller()


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> Never:
    raise jinja2.TemplateError(message)
