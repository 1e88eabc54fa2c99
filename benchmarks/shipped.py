"""The gateway as the image has it: from a wheel whose core is compiled (deploy/compile_core.py)."""

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import ROOT, ChildFailedError


@dataclass(frozen=True, slots=True)
class Shipped:
    """How to start it: what is installed at *directory* goes before the checkout."""

    directory: Path

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-P", "-m", "gateway", "serve")  # -P: not the packages of the working directory

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.directory)}


def build(into: Path) -> Shipped:
    """Build the wheel of this checkout and unpack it into *into*. Takes half a minute.

    Raises:
        ChildFailedError: it cannot be built here, for want of a C compiler perhaps; the message has pip's last words.
    """
    wheels, unpacked = into / "wheels", into / "shipped"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation"]
    built = subprocess.run(
        [*command, "--wheel-dir", str(wheels), str(ROOT)],
        env={**os.environ, "WARMGATE_COMPILE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        raise ChildFailedError(f"The wheel could not be built:\n{(built.stdout + built.stderr)[-2000:].strip()}")
    (wheel,) = wheels.glob("warmgate-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    return Shipped(unpacked)
