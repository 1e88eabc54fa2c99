"""`python -m tests.phoenix.environment`: Arize Phoenix in .venv-phoenix, 0.9 GB. Quick if it is there.

Phoenix (PyPI, Elastic License 2.0) receives OpenTelemetry's traces and shows what of them is about models: a receiver
that was written elsewhere. Exit status 1 if it could not be installed.
"""

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[1] / ".venv-phoenix"
BIN = ENVIRONMENT / "bin"
PHOENIX = BIN / "phoenix"


def install() -> None:
    """Exactly the version of requirements.txt.

    Raises:
        CalledProcessError: pip failed, and has said why.
    """
    done = ENVIRONMENT / "installed.txt"
    wanted = (HERE / "requirements.txt").read_text(encoding="utf-8")
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return
    if not (BIN / "python").exists():
        venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    (ENVIRONMENT / ".gitignore").write_text("*\n", encoding="utf-8")
    command = [str(BIN / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "-r", str(HERE / "requirements.txt")], check=True)
    done.write_text(wanted, encoding="utf-8")


def main() -> int:
    try:
        install()
    except subprocess.CalledProcessError:
        sys.stderr.write("Phoenix could not be installed; the reason stands above.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
