"""The texts of one stream: each comes in pieces, and several at a time."""

from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.guardrails.filter import Action, Text
from gateway.guardrails.redactor import Redactor
from gateway.guardrails.scanning import ScanFilter

Path = tuple[str | int | None, ...]
"""Which text of a stream a piece belongs to."""

Found = Callable[[str, Action], None]
"""A guardrail, by its name, has found something; raises ContentBlocked where that ends the answer."""


class Fields(Protocol):
    """What becomes of the texts of a stream, piece by piece."""

    def feed(self, path: Path, text: str, *, is_json: bool) -> str:
        """What goes on of *path* now, of which *text* is the next piece."""
        ...

    def end(self, path: Path) -> str:
        """What is left of *path*, which has ended; ``""`` also for one that has never begun."""
        ...

    def begun(self, beginning: Path) -> list[Path]:
        """Those that begin with *beginning* and have not ended."""
        ...

    def whole(self, text: Text) -> str:
        """What becomes of a *text* that comes in one piece."""
        ...


class ScannedFields:
    """Implements `Fields` with filters that need nobody else. Each text goes through all of them, in their order."""

    def __init__(self, filters: Sequence[ScanFilter], found: Found) -> None:
        self._filters = filters
        self._found = found
        self._chains: dict[Path, list[Redactor]] = {}

    def feed(self, path: Path, text: str, *, is_json: bool) -> str:
        chain = self._chains.get(path)
        if chain is None:
            chain = self._chains[path] = [Redactor(each.scan, is_json=is_json) for each in self._filters]
        for each, redactor in zip(self._filters, chain, strict=True):
            before = redactor.found
            told = redactor.feed(text)
            if redactor.found > before:
                self._found(each.name, each.action)
            if each.action != "log":
                text = told
        return text

    def end(self, path: Path) -> str:
        return self._ended(self._chains.pop(path, []), "")

    def begun(self, beginning: Path) -> list[Path]:
        return [path for path in self._chains if path[: len(beginning)] == beginning]

    def whole(self, text: Text) -> str:
        return self._ended([Redactor(each.scan, is_json=text.is_json) for each in self._filters], text.said)

    def _ended(self, chain: list[Redactor], text: str) -> str:
        for each, redactor in zip(self._filters, chain, strict=False):
            before = redactor.found
            told = redactor.end(text)
            if redactor.found > before:
                self._found(each.name, each.action)
            if each.action != "log":
                text = told
        return text


class KeptFields:
    """Implements `Fields` by keeping all texts, for somebody who has to see them whole; they pass as they are."""

    def __init__(self) -> None:
        self._pieces: dict[Path, list[str]] = {}
        self._is_json: dict[Path, bool] = {}
        self._whole: list[Text] = []

    def feed(self, path: Path, text: str, *, is_json: bool) -> str:
        self._pieces.setdefault(path, []).append(text)
        self._is_json[path] = is_json
        return text

    def end(self, path: Path) -> str:  # noqa: ARG002  # nothing was kept back
        return ""

    def begun(self, beginning: Path) -> list[Path]:  # noqa: ARG002
        return []

    def whole(self, text: Text) -> str:
        self._whole.append(text)
        return text.said

    @property
    def texts(self) -> list[Text]:
        """All of them, those in pieces first."""
        joined = [Text("".join(pieces), self._is_json[path]) for path, pieces in self._pieces.items()]
        return joined + self._whole

    def replaced(self, texts: Sequence[str]) -> "ReplacedFields":
        """What puts *texts* in the places of `texts`."""
        by_path = dict(zip(self._pieces, texts, strict=False))
        return ReplacedFields(by_path, list(texts[len(by_path) :]))


class ReplacedFields:
    """Implements `Fields` by giving other texts: all of one with its first piece."""

    def __init__(self, by_path: dict[Path, str], whole: list[str]) -> None:
        self._by_path = by_path
        self._whole = iter(whole)

    def feed(self, path: Path, text: str, *, is_json: bool) -> str:  # noqa: ARG002  # another stands in its place
        return self._by_path.pop(path, "")

    def end(self, path: Path) -> str:  # noqa: ARG002
        return ""

    def begun(self, beginning: Path) -> list[Path]:  # noqa: ARG002
        return []

    def whole(self, text: Text) -> str:  # noqa: ARG002
        return next(self._whole)
