"""`python -m tests.identity.environment`: oidc-provider with Node, in .venv-identity. Quick if they are there.

oidc-provider (npm, MIT) is a certified OpenID provider that was written elsewhere. Exit status 1 if something could not
be installed.
"""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[1] / ".venv-identity"
BIN = ENVIRONMENT / "bin"
NODE_PROJECT = ENVIRONMENT / "node-project"
PROGRAM = NODE_PROJECT / "provider.mjs"
MADE_FROM = (HERE / "requirements.txt", HERE / "package.json", HERE / "provider.mjs")


def install() -> None:
    """Install the packages in exactly the versions of requirements.txt and package.json.

    Raises:
        CalledProcessError: if pip or npm failed, and has said why.
    """
    done = ENVIRONMENT / "installed.txt"
    wanted = "".join(path.read_text(encoding="utf-8") for path in MADE_FROM)
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return
    if not (BIN / "python").exists():
        venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    (ENVIRONMENT / ".gitignore").write_text("*\n", encoding="utf-8")
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([BIN / "python", "-m", "pip", "install", *quiet, "-r", HERE / "requirements.txt"], check=True)
    NODE_PROJECT.mkdir(exist_ok=True)
    shutil.copy(HERE / "package.json", NODE_PROJECT)
    shutil.copy(HERE / "provider.mjs", PROGRAM)  # modules of JavaScript are looked up beside the program
    # No lock file: it would hold the addresses that packages were downloaded from.
    flags = ("--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run([BIN / "npm", "install", *flags], cwd=NODE_PROJECT, check=True, stdout=subprocess.DEVNULL)
    done.write_text(wanted, encoding="utf-8")


def main() -> int:
    try:
        install()
    except subprocess.CalledProcessError:
        sys.stderr.write("oidc-provider could not be installed; the reason stands above.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
