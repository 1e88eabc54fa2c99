"""`python -m benchmarks.peers.environment [NAME ...]`: other projects, each in an environment of its own.

Without a name, the routers that `python -m benchmarks.peers` measures. Quick where they are there already.

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
    whole: tuple[str, ...] = ()
    """Pinned, and installed with all that they require."""

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    @property
    def pins(self) -> tuple[str, ...]:
        """Everything that is asked for by name."""
        return (*self.requirements, *self.whole)


def _peer(name: str, *requirements: str, whole: tuple[str, ...] = ()) -> Peer:
    return Peer(name, requirements, ENVIRONMENTS / name, whole)


# What the Python part of the routers in Rust imports when it starts; their wheels would bring engines with them.
LAUNCHER = (
    "aiohttp==3.14.5",
    "fastapi==0.165.0",
    "orjson==3.13.0",
    "requests==2.34.2",
    "setproctitle==1.3.8",
    "uvicorn==0.54.0",
)

PEERS = {
    peer.name: peer
    for peer in (
        # 75 MB, and all that its index and its selection need: they are one extension module.
        _peer("dynamo", "ai-dynamo-runtime==1.6.1"),
        _peer("sglang", "sglang-router==0.3.2", whole=LAUNCHER),
        _peer(
            "smg",
            "smg==1.13.0",
            whole=("grpcio==1.85.1", "grpcio-health-checking==1.85.1", "pyyaml==6.0.3", "setproctitle==1.3.8"),
        ),
        _peer("vllm-router", "vllm-router==0.1.17", whole=LAUNCHER),
        _peer("litellm", whole=("litellm[proxy]==1.106.2", "prometheus-client==0.26.0")),
        # 1.2 GB: installed when a scenario asks for it.
        _peer("aiperf", whole=("aiperf==0.13.0",)),
    )
}
ROUTERS = ("sglang", "smg", "vllm-router", "litellm")


def install(peer: Peer) -> None:
    """Make the environment of *peer*, or leave it alone where it is what its requirements ask for.

    Raises:
        NotInstalledError: pip failed, and has said why on standard error.
    """
    done = peer.directory / "installed.json"
    wanted = json.dumps(peer.pins)
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return
    done.unlink(missing_ok=True)
    if not peer.python.exists():
        venv.create(peer.directory, with_pip=True, symlinks=True)
    (peer.directory / ".gitignore").write_text("*\n", encoding="utf-8")
    if peer.whole:
        _pip(peer, peer.whole)
    if peer.requirements:
        _pip(peer, ["--no-deps", *peer.requirements])
    done.write_text(wanted, encoding="utf-8")


def _pip(peer: Peer, arguments: Sequence[str]) -> None:
    """Run ``pip install``. Raises NotInstalledError."""
    command = [str(peer.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
        raise NotInstalledError(f"{' '.join(peer.pins)} could not be installed; pip's reason stands above")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.environment", description=__doc__.splitlines()[0])
    parser.add_argument("peer", nargs="*", metavar="NAME", help=f"of {', '.join(sorted(PEERS))}")
    names = parser.parse_args(arguments).peer or ROUTERS
    if unknown := [name for name in names if name not in PEERS]:
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(sorted(PEERS))}")
    try:
        for name in names:
            install(PEERS[name])
    except NotInstalledError as fault:
        print(f"{fault}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
