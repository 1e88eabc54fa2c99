"""`python deploy/lock.py`: write the two lock files for building the image, with the digests of all wheels.

The versions come from deploy/constraints.txt. For each platform of the image, pip reports the packages that a gateway
needs and the digests of their wheels. Lock files contain no addresses, so a build can take the wheels from any index.
The program needs a package index, downloads only metadata, and takes about a minute.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "deploy" / "constraints.txt"
PYTHON = "3.13"
"""Python version of the base image in the Dockerfile."""
ARCHITECTURES = ("x86_64", "aarch64")
"""Processor architectures of the image: Intel and AMD (x86_64), and Graviton (aarch64)."""
GLIBC = ((2, 17), (2, 28), (2, 34))
"""Versions of glibc that wheels are commonly built for. The base image, Debian 13, has version 2.41."""

LOCKS = {
    "requirements.lock": (
        None,
        "bedrock",
        "console",
        "guardrails",
        "oidc",
        "otel",
        "picker",
        "processes",
        "s3",
        "tokenizer",
    ),
    "requirements-build.lock": ("compile", "sbom"),
}
"""Dependency groups of pyproject.toml in each lock file. None stands for the basic dependencies."""


def needed(groups: Iterable[str | None], project: Mapping[str, Any]) -> list[str]:
    """Return the requirements of *groups* in *project*, a table of pyproject.toml."""
    extras = project["optional-dependencies"]
    return [name for group in groups for name in (project["dependencies"] if group is None else extras[group])]


def digests(requirements: Iterable[str], architecture: str) -> dict[str, str]:
    """Return the SHA-256 digests of the wheels that pip would install for *requirements*, by ``name==version``.

    Raises:
        CalledProcessError: if pip fails. Its standard error contains the reason.
    """
    platforms = [f"manylinux_{major}_{minor}_{architecture}" for major, minor in GLIBC]
    platforms.append(f"manylinux2014_{architecture}")
    command = [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-qqq", "--dry-run"),
        *("--ignore-installed", "--only-binary=:all:", "--target", "unused", "--report", "-"),
        *("--python-version", PYTHON, "--implementation", "cp", "-c", str(CONSTRAINTS)),
        *(f"--platform={platform}" for platform in platforms),
        *requirements,
    ]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return dict(_digest(found) for found in answer["install"])


def _digest(found: Mapping[str, Any]) -> tuple[str, str]:
    name = re.sub(r"[-_.]+", "-", found["metadata"]["name"]).lower()
    return f"{name}=={found['metadata']['version']}", found["download_info"]["archive_info"]["hashes"]["sha256"]


def lines(by_architecture: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Return the lines of a lock file for ``pip install --require-hashes -r``."""
    digests_of: dict[str, set[str]] = {}
    for found in by_architecture:
        for pin, digest in found.items():
            digests_of.setdefault(pin, set()).add(digest)
    for pin, every in sorted(digests_of.items()):
        yield " \\\n    ".join([pin, *(f"--hash=sha256:{digest}" for digest in sorted(every))])


def main() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    for name, groups in LOCKS.items():
        requirements = needed(groups, project)
        head = (
            f"# Made by deploy/lock.py from deploy/constraints.txt, for CPython {PYTHON}"
            f" on {' and '.join(ARCHITECTURES)}.\n"
            f"# For {', '.join(sorted(requirements))}.\n"
        )
        found = [digests(requirements, architecture) for architecture in ARCHITECTURES]
        (ROOT / "deploy" / name).write_text(head + "\n".join(lines(found)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
