"""`python -m tests.deploy.environment`: what the tests of deploy/ need, in .venv-deploy. Quick if it is there.

That is the gateway with the extras `test` and `deploy` (Helm's own library, the schemas of Kubernetes, a linter for
Dockerfiles: some 400 MB, which is why they have an environment of their own), and from npm the schemas of resources
that Kubernetes itself does not have. Exit status 1 if something could not be installed.
"""

import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENT = ROOT / ".venv-deploy"
BIN = ENVIRONMENT / "bin"
NODE_PROJECT = ENVIRONMENT / "node-project"
CONSTRAINTS = ROOT / "deploy" / "constraints.txt"
PACKAGES = HERE / "package.json"


def install() -> None:
    """Packages in exactly the versions of constraints.txt and package.json.

    Raises:
        CalledProcessError: pip or npm failed, and has said why.
    """
    done = ENVIRONMENT / "installed.txt"
    wanted = _wanted()
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return
    if not (BIN / "python").exists():
        venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    (ENVIRONMENT / ".gitignore").write_text("*\n", encoding="utf-8")
    quiet = ("--quiet", "--disable-pip-version-check")
    what = ("-c", str(CONSTRAINTS), "-e", f"{ROOT}[test,deploy]")
    subprocess.run([BIN / "python", "-m", "pip", "install", *quiet, *what], check=True)
    NODE_PROJECT.mkdir(exist_ok=True)
    shutil.copy(PACKAGES, NODE_PROJECT)
    # No lock file: it would hold the addresses that packages were downloaded from.
    flags = ("--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    npm = shutil.which("npm")
    if npm is not None:  # without it, the tests that need its packages say so and are skipped
        subprocess.run([npm, "install", *flags], cwd=NODE_PROJECT, check=True, stdout=subprocess.DEVNULL)
    done.write_text(wanted, encoding="utf-8")


def _wanted() -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["deploy"]]
    files = (CONSTRAINTS.read_text(encoding="utf-8"), PACKAGES.read_text(encoding="utf-8"))
    return "\n".join([*asked, *project["optional-dependencies"]["test"], *files])


def main() -> int:
    try:
        install()
    except subprocess.CalledProcessError:
        sys.stderr.write("What the tests of deploy/ need could not be installed; the reason stands above.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
