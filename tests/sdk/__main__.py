"""`python -m tests.sdk`: install the SDKs into .venv-sdk, start the demo, and run the smoke of each.

One line per check on standard output; exit status 1 if one fails, 2 if nothing could be installed.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.sdk.errors import refusing_gateway

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[1] / ".venv-sdk"
BIN = ENVIRONMENT / "bin"
NODE_PROJECT = ENVIRONMENT / "node-project"
"""Node looks for packages beside the script that imports them, so the script is copied to where they are."""

DEMO = (sys.executable, "-m", "gateway", "demo", "--port", "0", "--workers", "2")
SMOKE_TIMEOUT_S = 300.0  # a smoke takes some seconds, of which the import of LiteLLM is most


def install() -> None:
    """Packages in exactly the versions of requirements.txt and package.json; quick if they are there.

    Raises:
        CalledProcessError: pip or npm failed, and has said why.
    """
    if not (BIN / "python").exists():
        venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([BIN / "python", "-m", "pip", "install", *quiet, "-r", HERE / "requirements.txt"], check=True)
    NODE_PROJECT.mkdir(exist_ok=True)
    for name in ("package.json", "openai_node.mjs", "errors_vercel.mjs"):
        shutil.copy(HERE / name, NODE_PROJECT)
    # No lock file: it would hold the addresses that packages were downloaded from.
    flags = ("--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run([BIN / "npm", "install", *flags], cwd=NODE_PROJECT, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def demo() -> Iterator[tuple[str, str]]:
    """The demo on a free port; yields its address and the key of this start."""
    # Without a line per request, which would fill the pipe: no one reads it once the address is known.
    environment = {**os.environ, "WARMGATE_LOGGING__REQUESTS": "false"}
    with subprocess.Popen(DEMO, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            key = ""
            for line in process.stdout:
                if line.strip().startswith("wg-demo-"):
                    key = line.strip()
                if line.startswith("ready: "):
                    yield line.removeprefix("ready: ").strip(), key
                    return
            raise RuntimeError("the demo ended before it was ready; its error is above")
        finally:
            process.terminate()
            process.communicate()


def passes(name: str, command: Sequence[str | Path]) -> bool:
    """Whether the smoke succeeds. It prints a line per check."""
    sys.stdout.write(f"{name}\n")
    sys.stdout.flush()
    try:
        # An empty environment: neither a proxy nor a key nor a base URL of the developer's.
        return subprocess.run(command, env={}, check=False, timeout=SMOKE_TIMEOUT_S).returncode == 0
    except subprocess.TimeoutExpired:
        sys.stdout.write(f"FAIL  not done after {SMOKE_TIMEOUT_S:g} s\n")
        return False


async def errors() -> list[bool]:
    async with refusing_gateway() as cases:
        return [
            await asyncio.to_thread(passes, name, [*command, cases])
            for name, command in {
                "Errors, Python": [BIN / "python", HERE / "errors_python.py"],
                "Errors, Vercel AI SDK": [BIN / "node", NODE_PROJECT / "errors_vercel.mjs"],
            }.items()
        ]


def main() -> int:
    try:
        install()
    except subprocess.CalledProcessError:
        sys.stderr.write("The SDKs could not be installed; the reason stands above.\n")
        return 2
    with demo() as (address, key):
        results = [
            passes("OpenAI, Node", [BIN / "node", NODE_PROJECT / "openai_node.mjs", address, key]),
            passes("Anthropic, Python", [BIN / "python", HERE / "anthropic_python.py", address, key]),
        ]
    results += asyncio.run(errors())
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
