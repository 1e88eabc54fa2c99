"""`python -m tests.dynamo.environment`: NVIDIA Dynamo with its mocker, in .venv-dynamo. Quick if it is there; 400 MB.

Frontend and mocker need neither a GPU, nor etcd, nor NATS. The wheels of Dynamo are installed without what they ask
for: that is what real engines need. Exit status 1 if something could not be installed.
"""

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[1] / ".venv-dynamo"
PYTHON = ENVIRONMENT / "bin" / "python"
REQUIREMENTS = HERE / "requirements.txt"
DYNAMO = ("ai-dynamo==1.6.1", "ai-dynamo-runtime==1.6.1")


def is_installed() -> bool:
    done = ENVIRONMENT / "installed.txt"
    return done.is_file() and done.read_text(encoding="utf-8") == _wanted()


def install() -> None:
    """Packages in exactly the versions that stand here and in requirements.txt.

    Raises:
        CalledProcessError: pip failed, and has said why.
    """
    if is_installed():
        return
    if not PYTHON.exists():
        venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    (ENVIRONMENT / ".gitignore").write_text("*\n", encoding="utf-8")
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([PYTHON, "-m", "pip", "install", *quiet, "-r", REQUIREMENTS], check=True)
    subprocess.run([PYTHON, "-m", "pip", "install", *quiet, "--no-deps", *DYNAMO], check=True)
    (ENVIRONMENT / "installed.txt").write_text(_wanted(), encoding="utf-8")


def _wanted() -> str:
    return "\n".join((*DYNAMO, REQUIREMENTS.read_text(encoding="utf-8")))


def main() -> int:
    try:
        install()
    except subprocess.CalledProcessError:
        sys.stderr.write("Dynamo could not be installed; the reason stands above.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
