"""What the image says, run as a container engine runs it: its user, its variables, and a root that no one can write to.

`buildah run` has no read-only root, so the namespace is made here, with the tools of util-linux. Only /tmp and
/var/lib/warmgate can be written to. No capability is left, none can be had again, and nothing of this machine's
environment gets in. The network is the machine's own.
"""

import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.image.environment import IMAGE, buildah, described

STATE = "/var/lib/warmgate"
CONFIGURATION = "/etc/warmgate"
PATIENCE_S = 30.0

# Run by sh in a mount namespace of its own: $1 the root, $2 the state, $3 the configuration; the rest is the command.
ENTER = f"""
set -eu
root=$1; state=$2; configuration=$3; shift 3
mount --bind "$root" "$root"
mount --bind "$state" "$root{STATE}"
mount --bind -o ro "$configuration" "$root{CONFIGURATION}"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
"""
UNPRIVILEGED = ("--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all")


@dataclass(frozen=True, slots=True)
class Container:
    """The image's configuration and files, and where what it writes goes."""

    image: Mapping[str, Any]
    root: Path
    state: Path
    configuration: Path

    def run(self, *command: str, root: bool = False) -> "subprocess.CompletedProcess[str]":
        """Run *command* as the image's user, or as root with all that root may, and wait for its end."""
        return subprocess.run(
            self._entering(command, {}, root=root), capture_output=True, check=False, text=True, timeout=PATIENCE_S
        )

    def health(self, variables: Mapping[str, str]) -> int:
        """The exit status of the image's health check, where the gateway has been given *variables*."""
        kind, *command = self.image["Healthcheck"]["Test"]
        assert "CMD" == kind
        return subprocess.run(
            self._entering(command, variables), capture_output=True, check=False, timeout=PATIENCE_S
        ).returncode

    @contextmanager
    def started(
        self, settings: Mapping[str, object], variables: Mapping[str, str], *arguments: str
    ) -> Iterator["Running"]:
        """The image's entry point with *arguments* or else its own, and *settings* where these look for them."""
        (self.configuration / "warmgate.yaml").write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")
        output = self.state.parent / "output"
        with output.open("wb") as sink:
            process = subprocess.Popen(
                self._entering([*self.image["Entrypoint"], *(arguments or self.image["Cmd"])], variables),
                stdout=sink,
                stderr=sink,
            )
        running = Running(process, output)
        try:
            yield running
        finally:
            process.kill()
            process.wait()

    def _entering(self, command: Sequence[str], variables: Mapping[str, str], *, root: bool = False) -> list[str]:
        user, _, group = self.image["User"].partition(":")
        become = () if root else ("setpriv", f"--reuid={user}", f"--regid={group}", *UNPRIVILEGED)
        own = [f"{name}={value}" for name, value in variables.items()]
        return [
            *("unshare", "--mount", "sh", "-c", ENTER, "sh", str(self.root), str(self.state), str(self.configuration)),
            *become,
            *("env", "-i", f"--chdir={self.image['WorkingDir']}", *self.image["Env"], *own, *command),
        ]


@dataclass(frozen=True, slots=True)
class Running:
    """The gateway in it. Its process is the one that was started: every step on the way replaces itself."""

    process: "subprocess.Popen[bytes]"
    output: Path

    def said(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def wait_until_ready(self) -> None:
        """Raises AssertionError, with what it said, if it ends or is not ready in time."""
        give_up_at = time.monotonic() + PATIENCE_S
        while "\nready: " not in f"\n{self.said()}":
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < give_up_at, self.said()
            time.sleep(0.05)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def identity(self) -> dict[str, list[str]]:
        """``Uid``, ``Gid``, ``CapEff``, ``NoNewPrivs`` and so on, as the kernel reports."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


@contextmanager
def unpacked(folder: Path, image: str = IMAGE) -> Iterator[Container]:
    """The files of *image*, taken away at the end; *folder* holds its state and its configuration."""
    state, configuration = folder / "state", folder / "configuration"
    state.mkdir(mode=0o700)
    configuration.mkdir(mode=0o755)
    name = buildah("from", "--pull-never", image)
    try:
        root = Path(buildah("mount", name))
        (root / CONFIGURATION.lstrip("/")).mkdir(exist_ok=True)  # as an engine does for what is mounted there
        uid, _, gid = str(described(image)["User"]).partition(":")
        subprocess.run(shlex.split(f"chown {uid}:{gid} {shlex.quote(str(state))}"), check=True)
        yield Container(described(image), root, state, configuration)
    finally:
        buildah("rm", name)
