"""`python -m benchmarks.peers.environment NAME`: another project in an environment of its own. Quick if it is there.

It lies in `.peers/NAME`, apart from ours: nothing of a peer is imported by anything that is shipped or tested. Exit
status 1 if something could not be installed.
"""

import argparse
import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".peers"


class NotInstalledError(Exception):
    """The environment is not complete; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A project to be measured beside, by the distributions of it that are installed."""

    name: str
    requirements: tuple[str, ...]
    """Pinned, and installed without what they require: it is not needed for what is measured."""
    directory: Path

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"


PEERS = {
    # 75 MB, and all that its index and its selection need: they are one extension module.
    "dynamo": Peer("dynamo", ("ai-dynamo-runtime==1.6.1",), ENVIRONMENTS / "dynamo"),
}


def install(peer: Peer) -> None:
    """Make the environment of *peer*, or leave it alone where it is what its requirements ask for.

    Raises:
        NotInstalledError: pip failed, and has said why on standard error.
    """
    done = peer.directory / "installed.json"
    wanted = json.dumps(peer.requirements)
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return
    done.unlink(missing_ok=True)
    if not peer.python.exists():
        venv.create(peer.directory, with_pip=True, symlinks=True)
    (peer.directory / ".gitignore").write_text("*\n", encoding="utf-8")
    _pip(peer, ["--no-deps", *peer.requirements])
    done.write_text(wanted, encoding="utf-8")


def _pip(peer: Peer, arguments: Sequence[str]) -> None:
    """Run ``pip install``. Raises NotInstalledError."""
    command = [str(peer.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
        raise NotInstalledError(f"{' '.join(peer.requirements)} could not be installed; pip's reason stands above")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.environment", description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=sorted(PEERS))
    try:
        install(PEERS[parser.parse_args(arguments).peer])
    except NotInstalledError as fault:
        print(f"{fault}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
