"""Check the texts of a stream. Each text arrives in several pieces, and several texts can be open at the same time."""

from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.proxy.guardrails.filter import Action, Text
from gateway.proxy.guardrails.redactor import Redactor
from gateway.proxy.guardrails.scanning import ScanFilter

Path = tuple[str | int | None, ...]
"""Position of a text within the events of a stream."""

Found = Callable[[str, Action], None]
"""Function that is called with the name and action of a guardrail that has found something. It raises ContentBlocked to
end the answer.
"""


class StreamTexts(Protocol):
    """Texts of one stream, which are changed piece by piece."""

    def feed(self, path: Path, text: str, *, is_json: bool) -> str:
        """Add *text*, which is the next piece of the text at *path*, and return the characters that can be sent now."""
        ...

    def end(self, path: Path) -> str:
        """Return the held characters of the text at *path*, which has ended, or an empty string if it never began."""
        ...

    def begun(self, beginning: Path) -> list[Path]:
        """Return the paths of open texts that begin with *beginning*."""
        ...

    def whole(self, text: Text) -> str:
        """Return the changed form of a text that arrives in one piece."""
        ...


class ScannedFields:
    """Implementation of `StreamTexts` by scanning. Each text passes through all filters in their configured order."""

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
            changed = redactor.feed(text)
            if redactor.found > before:
                self._found(each.name, each.action)
            if each.action != "log":
                text = changed
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
            changed = redactor.end(text)
            if redactor.found > before:
                self._found(each.name, each.action)
            if each.action != "log":
                text = changed
        return text


class KeptFields:
    """Implementation of `StreamTexts` that collects all texts for a service that must check whole texts. The texts pass
    unchanged.
    """

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
        """Return all collected texts. Texts that arrived in several pieces come first."""
        joined = [Text("".join(pieces), self._is_json[path]) for path, pieces in self._pieces.items()]
        return joined + self._whole

    def replaced(self, texts: Sequence[str]) -> "ReplacedFields":
        """Return an object that replaces the collected texts with *texts*."""
        by_path = dict(zip(self._pieces, texts, strict=False))
        return ReplacedFields(by_path, list(texts[len(by_path) :]))


class ReplacedFields:
    """Implementation of `StreamTexts` that replaces texts. For the first piece of an old text, it returns the whole new
    text.
    """

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
