"""Output of commands, as columns for people or as JSON for programs."""

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import msgspec

from gateway.cli.commands.table import card, table

Json = dict[str, Any]

_OBJECT = "object"
"""Response field with the object type, which the terminal output omits."""


class CommandFailed(Exception):
    """A command failed. The text is a full sentence. The exit code *code* is 1 for a failure and 2 for wrong usage."""

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Output:
    """Writer of command output to *sink* in UTF-8. *now* is the start time of the command in seconds since 1970."""

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
        """Print *key* with its new secret, which cannot be shown again.

        If *is_quiet* is true, print only the secret.
        """
        if is_quiet:
            self.text(f"{key['secret']}\n")
            return
        self.entity(key)
        if not self.is_json:
            self.text("\nThe secret is shown only once and is not stored. If you lose it, rotate the key.\n")

    def done(self, sentence: str) -> None:
        """Print *sentence* unless the output is JSON, because programs check the exit code instead."""
        if not self.is_json:
            self.text(f"{sentence}\n")

    def text(self, text: str) -> None:
        self.raw(text.encode())

    def raw(self, data: bytes) -> None:
        self._sink.write(data)

    def _json(self, value: Any) -> None:
        self.raw(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
