"""Compiled gateway as in the container image: a wheel with a compiled core (deploy/compile_core.py)."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.processes import ROOT, ChildFailedError

KEPT = ROOT / ".peers" / "shipped"
MOST_KEPT = 4
"""Number of unpacked wheels to keep: two versions for a comparison, and their two predecessors."""
SOURCES = ("gateway", "routing", "cache_index", "deploy/compile_core.py", "pyproject.toml")
"""Sources of the wheel, including its build script."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """Unpacked wheel. *directory* precedes the checkout in the module search path."""

    directory: Path

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-P", "-m", "gateway", "serve")  # -P: not the packages of the working directory

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.directory)}


def build(root: Path = ROOT, kept: Path = KEPT, make: "Callable[[Path, Path], None] | None" = None) -> Shipped:
    """Return the wheel of the sources in *root*, unpacked in *kept*. A wheel that exists already is reused.

    To build takes three minutes of one core. *make* unpacks the wheel of the first into the second; default: pip.

    Raises:
        ChildFailedError: it cannot be built here, for want of a C compiler perhaps; the message has pip's last words.
    """
    unpacked = kept / digest(root)
    if not unpacked.is_dir():
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept) as folder:
            (make or make_wheel)(root, Path(folder) / "shipped")
            _forget_old(kept)
            # Whole or not at all; another process that built the same has put the same there.
            shutil.move(Path(folder) / "shipped", unpacked)
    os.utime(unpacked)
    return Shipped(unpacked)


def digest(root: Path) -> str:
    """Return a digest that changes with every input of the wheel."""
    found = hashlib.sha256(f"{sys.version} {version('mypy')}".encode())
    for name in SOURCES:
        place = root / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and "__pycache__" not in path.parts:
                content = path.read_bytes()
                found.update(f"\n{path.relative_to(root)} {len(content)}\n".encode() + content)
    return found.hexdigest()[:16]


def make_wheel(root: Path, into: Path) -> None:
    """Build the wheel with pip and unpack it. Raises ChildFailedError if the build fails."""
    with tempfile.TemporaryDirectory() as wheels:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"]
        built = subprocess.run(
            [*command, "--no-build-isolation", "--wheel-dir", wheels, str(root)],
            env={**os.environ, "WARMGATE_COMPILE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode != 0:
            raise ChildFailedError(f"The wheel could not be built:\n{(built.stdout + built.stderr)[-2000:].strip()}")
        (wheel,) = Path(wheels).glob("warmgate-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(into)


def _forget_old(kept: Path) -> None:
    """Remove all unpacked wheels except the most recently used."""
    former = sorted((path for path in kept.iterdir() if len(path.name) == 16), key=lambda path: path.stat().st_mtime)
    for path in former[: 1 - MOST_KEPT]:
        shutil.rmtree(path)
