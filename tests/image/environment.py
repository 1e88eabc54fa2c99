"""`python -m tests.image.environment`: builds the Dockerfile, with buildah, on two stand-ins for its base images.

Two images come of it: the gateway, and the gateway with the demo.

Where no registry can be reached there are no base images; debootstrap makes the same Debian from its packages, with its
own Python 3.13 where the official images have theirs. Everything lies in .image, some 2 GB. Needs root, and installs
buildah and debootstrap by Debian's apt-get. Some five minutes of processor time, more the first time. Exit status 1 if
it could not be done.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".image"
IMAGE = "localhost/warmgate:test"
DEMO = "localhost/warmgate-demo:test"
RUN_BASE = "localhost/warmgate-run-base"
BUILD_BASE = "localhost/warmgate-build-base"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Those of this machine: a program between it and an index may have added one."""

RELEASE = "trixie"
PYTHON = "3.13"
RUN_PACKAGES = "ca-certificates,python3"
BUILD_PACKAGES = ("gcc", "libc6-dev", "python3-dev", "python3-pip", "python3-venv")
ROOM_BYTES = 4 * 2**30

Word = str | Path


class NotBuiltError(Exception):
    """The image is not there; the text says why."""


def buildah(*arguments: Word) -> str:
    """What ``buildah`` says on standard output. It keeps everything in `FOLDER`.

    Raises:
        NotBuiltError: it failed, and has said why on standard error.
    """
    store = ("--root", FOLDER / "storage", "--runroot", FOLDER / "run", "--storage-driver", "vfs")
    return _run("buildah", *store, *arguments).strip()


def build() -> float:
    """Build `IMAGE` and `DEMO` from the Dockerfile. Returns the seconds that took, without those for the stand-ins.

    Raises:
        NotBuiltError: something is missing, or fails.
    """
    _install()
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    policy = FOLDER / "policy.json"
    policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}), encoding="utf-8")
    _bases(policy)
    began = time.monotonic()
    bases = ("--build-arg", f"RUN_IMAGE={RUN_BASE}", "--build-arg", f"BUILD_IMAGE={BUILD_BASE}")
    _bud(policy, *bases, "--tag", IMAGE)
    # The stage `demo` begins with what is now IMAGE: its own lines are run, and not all of the others once more.
    (FOLDER / "Dockerfile.demo").write_text(f"FROM {IMAGE}\n{demo_lines()}", encoding="utf-8")
    _bud(policy, "--file", FOLDER / "Dockerfile.demo", "--tag", DEMO)
    took_s = time.monotonic() - began
    buildah("rmi", "--prune")  # the one before it, which has no name now
    return took_s


def demo_lines() -> str:
    """The lines of the Dockerfile's stage `demo` after its FROM."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    return text.partition("\nFROM gateway AS demo\n")[2].partition("\nFROM ")[0]


def described(image: str = IMAGE) -> dict[str, Any]:
    """The configuration of *image*: ``User``, ``Env``, ``Entrypoint``, ``Healthcheck`` and so on."""
    found: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", image))
    configuration: dict[str, Any] = found["Docker"]["config"]
    return configuration


def installed_bytes(root: Path) -> int:
    """What stands beside the base image, in the image that is unpacked at *root*."""
    files = (path for path in (root / "opt/warmgate").rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)


def _bud(policy: Path, *arguments: Word) -> None:
    """Build an image from the sources, with *arguments* that say which."""
    buildah(
        "bud",
        "--no-cache",  # buildah 1.28 wants it said where --force-rm is
        "--force-rm",
        *("--isolation", "chroot", "--pull=false", "--format", "docker", "--signature-policy", policy),
        *("--ignorefile", ROOT / ".dockerignore", *arguments, ROOT),
    )


def _bases(policy: Path) -> None:
    """Make both stand-ins, unless what they are made from has not changed."""
    done = FOLDER / "bases.json"
    wanted = json.dumps([RELEASE, PYTHON, RUN_PACKAGES, BUILD_PACKAGES])
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return
    if shutil.disk_usage(FOLDER).free < ROOM_BYTES:
        raise NotBuiltError(f"The images need {ROOM_BYTES / 2**30:g} GiB of disk")
    root = FOLDER / "debian"
    shutil.rmtree(root, ignore_errors=True)
    _run("debootstrap", "--variant=minbase", f"--include={RUN_PACKAGES}", RELEASE, root)
    shutil.copy(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
    # The official images have theirs there, and an environment remembers where its Python was.
    for name in ("python", "python3", f"python{PYTHON}"):
        (root / "usr/local/bin" / name).symlink_to(f"/usr/bin/python{PYTHON}")
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, root, "/")
    buildah("commit", "--quiet", "--signature-policy", policy, container, RUN_BASE)
    run = ("run", "--isolation", "chroot", container, "--")
    buildah(*run, "apt-get", "update", "--quiet")
    buildah(*run, "apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *BUILD_PACKAGES)
    buildah("config", "--env", f"PIP_CERT={CERTIFICATES}", container)
    buildah("commit", "--quiet", "--rm", "--signature-policy", policy, container, BUILD_BASE)
    shutil.rmtree(root)
    done.write_text(wanted, encoding="utf-8")


def _install() -> None:
    if os.geteuid() != 0:
        raise NotBuiltError("debootstrap and a read-only root need root")
    if not (shutil.which("buildah") and shutil.which("debootstrap")):
        _run("apt-get", "install", "--yes", "--no-install-recommends", "buildah", "debootstrap")


def _run(*command: Word) -> str:
    words: Sequence[str] = [str(word) for word in command]
    ran = subprocess.run(words, check=False, capture_output=True, text=True)
    if ran.returncode:
        sys.stderr.write("".join(f"{line}\n" for line in (ran.stdout + ran.stderr).splitlines()[-40:]))
        raise NotBuiltError(f"{words[0]} failed; its reason stands above")
    return ran.stdout


def main() -> int:
    try:
        took_s = build()
        name = buildah("from", "--pull-never", IMAGE)
        size = installed_bytes(Path(buildah("mount", name)))
        buildah("rm", name)
    except NotBuiltError as fault:
        sys.stderr.write(f"{fault}.\n")
        return 1
    sys.stdout.write(f"{IMAGE}: built in {took_s:.0f} s, {size / 2**20:.0f} MiB beside its base\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
