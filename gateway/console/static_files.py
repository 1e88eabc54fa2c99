"""Style sheet, script and icon of the console. Their addresses contain a digest of their content."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

PREFIX: Final = "/console/static/"
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
NAMES: Final = ("console.css", "console.js", "icon.svg")


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    media_type: str


class StaticFiles:
    """Files in the folder `static`, read once."""

    def __init__(self) -> None:
        folder = resources.files("gateway.console") / "static"
        self._files: dict[str, StaticFile] = {}
        self.addresses: Mapping[str, str] = {name: self._add(name, (folder / name).read_bytes()) for name in NAMES}
        """Address of each file by its name."""

    def find(self, name: str) -> StaticFile | None:
        """Return the file with the last part *name* of an address, or None if there is no such file."""
        return self._files.get(name)

    def _add(self, name: str, content: bytes) -> str:
        stem, _, ending = name.partition(".")
        hashed = f"{stem}.{hashlib.sha256(content).hexdigest()[:16]}.{ending}"
        self._files[hashed] = StaticFile(content, TYPES[f".{ending}"])
        return PREFIX + hashed
