"""`python -m deploy.release`: create the files of a release in dist/. `make release` runs it. Pushes nothing.

A release has the wheel, the source distribution, the packaged chart, the SBOM of the wheel with its extras (CycloneDX),
the image as an archive, and SHA256SUMS. The image needs root and Debian's buildah, and uses the stand-in for its base
image that tests/image makes. If the image cannot be built, the program says so and makes the other files. Exit status 1
if anything else fails.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
FOLDER = ROOT / "build" / "release"
CONSTRAINTS = ROOT / "deploy" / "constraints.txt"
CHART = ROOT / "deploy" / "helm" / "warmgate"
CHECKSUMS = "SHA256SUMS"
EXTRAS = "bedrock,guardrails,otel,tokenizer"
"""Extras of the package that the image and the SBOM include."""


def version() -> str:
    """Return the version of the project."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: str = tomllib.load(file)["project"]["version"]
    return found


def run(*command: str | Path) -> None:
    """Run *command* in the root of the repository.

    Raises:
        CalledProcessError: if the command fails. The command prints the reason.
    """
    subprocess.run([str(word) for word in command], cwd=ROOT, check=True)


def packages(dist: Path) -> None:
    """Build the source distribution and the wheel, which is pure Python, into *dist*."""
    run(sys.executable, "-m", "hatchling", "build", "--directory", dist)


def chart(dist: Path) -> None:
    """Package the Helm chart into *dist*, using the program `helm` or else the library of the chart's tests."""
    if shutil.which("helm"):
        run("helm", "package", CHART, "--destination", dist)
        return
    run(sys.executable, "-m", "tests.deploy.environment")
    package = "import sys, helm_python; helm_python.package(sys.argv[1], destination=sys.argv[2])"
    run(ROOT / ".venv-deploy" / "bin" / "python", "-c", package, CHART, dist)


def sbom(dist: Path) -> None:
    """Install the wheel of *dist* with its extras into a new environment, and list the packages there."""
    wheel = dist / f"warmgate-{version()}-py3-none-any.whl"
    installed, tool = FOLDER / "installed", FOLDER / "tool"
    for folder in (installed, tool):
        venv.create(folder, clear=True, with_pip=True)
    pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-c", CONSTRAINTS)
    run(installed / "bin" / "python", *pip, f"{wheel}[{EXTRAS}]")
    run(tool / "bin" / "python", *pip, "cyclonedx-bom")
    # What a new environment begins with is no part of the product.
    uninstall = ("-m", "pip", "--disable-pip-version-check", "uninstall", "--quiet", "--yes")
    run(installed / "bin" / "python", *uninstall, "setuptools", "pip")
    run(
        *(tool / "bin" / "cyclonedx-py", "environment", "--pyproject", ROOT / "pyproject.toml"),
        *("--output-reproducible", "--output-file", dist / f"warmgate-{version()}.cdx.json"),
        installed / "bin" / "python",
    )


def image(dist: Path) -> None:
    """Build the image and write it into *dist*, as an archive that `docker load` reads."""
    run(sys.executable, "-m", "tests.image.environment")
    archive = dist / f"warmgate-{version()}-image.tar"
    push = (
        "import sys; from tests.image.environment import FOLDER, IMAGE, buildah; "
        "buildah('push', '--signature-policy', FOLDER / 'policy.json', IMAGE, sys.argv[1])"
    )
    run(sys.executable, "-c", push, f"docker-archive:{archive}:warmgate:{version()}")


def checksums(files: Iterable[Path]) -> str:
    """Return the lines of SHA256SUMS for *files*, as `sha256sum --check` reads them."""
    lines = []
    for path in sorted(files, key=lambda path: path.name):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)


def make(dist: Path, steps: Iterable[Callable[[Path], None]], optional: Callable[[Path], None] | None) -> None:
    """Empty *dist*, run *steps* and the *optional* step for it, and write the checksums of what they made.

    Raises:
        CalledProcessError: if one of *steps* fails. A failure of *optional* is printed.
    """
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    for step in steps:
        step(dist)
    if optional is not None:
        try:
            optional(dist)
        except (OSError, subprocess.CalledProcessError):
            print(f"Skipped: {optional.__name__} could not be made here. The reason is printed above.", file=sys.stderr)
    (dist / CHECKSUMS).write_text(checksums(dist.iterdir()), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.release", description="Create the files of a release in dist/."
    )
    parser.add_argument("--without-image", action="store_true", help="do not make the archive of the container image")
    arguments = parser.parse_args()
    if arguments.without_image:
        print("Skipped: image, because the option --without-image was given.", file=sys.stderr)
    try:
        make(DIST, (packages, chart, sbom), None if arguments.without_image else image)
    except subprocess.CalledProcessError as fault:
        print(f"No release was made: {fault}", file=sys.stderr)
        return 1
    print((DIST / CHECKSUMS).read_text(encoding="utf-8"), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
