"""Output of commands: columns for people, or JSON for programs."""

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import msgspec

from gateway.cli.commands.table import card, table

Json = dict[str, Any]

_OBJECT = "object"
"""A field that says what kind of answer it is: of no interest at a terminal."""


class CommandFailed(Exception):
    """A command failed; the text is a sentence. *code* is the exit code: 1 failed, 2 bad usage."""

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Output:
    """Writes UTF-8 to *sink*. *now*, in seconds since 1970, is when the command began."""

    def __init__(self, sink: BinaryIO, *, is_json: bool, now: float) -> None:
        self._sink = sink
        self.is_json = is_json
        self.now = now

    def entity(self, entity: Mapping[str, Any]) -> None:
        if self.is_json:
            self._json(entity)
        else:
            self.text(card({name: value for name, value in entity.items() if name != _OBJECT}))

    def entities(self, entities: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        if self.is_json:
            self._json(entities)
        else:
            self.text(table(entities, columns))

    def secret(self, key: Mapping[str, Any], *, is_quiet: bool) -> None:
        """*key* with its new secret, which cannot be shown again; *is_quiet*: the secret and nothing else."""
        if is_quiet:
            self.text(f"{key['secret']}\n")
            return
        self.entity(key)
        if not self.is_json:
            self.text("\nThe secret is shown this once, and is not kept: who loses it rotates the key.\n")

    def done(self, sentence: str) -> None:
        """Print a line for people; programs use the exit code."""
        if not self.is_json:
            self.text(f"{sentence}\n")

    def text(self, text: str) -> None:
        self.raw(text.encode())

    def raw(self, data: bytes) -> None:
        self._sink.write(data)

    def _json(self, value: Any) -> None:
        self.raw(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
