"""Installation of wrk and nginx, which benchmarks need, where they are missing."""

import os
import shlex
import shutil
import subprocess
import sys

from benchmarks.processes import ChildFailedError

SERVICE_PATH = "/usr/sbin"
"""Folder of Debian's nginx, which is not in the PATH of ordinary users."""


def install_tools(also_in: str = SERVICE_PATH) -> None:
    """Ensure that ``wrk`` and ``nginx`` are in the PATH or in *also_in*, and install missing programs with apt-get.

    Raises:
        ChildFailedError: if a program is missing and cannot be installed.
    """
    os.environ["PATH"] += os.pathsep + also_in
    missing = {tool: package for tool, package in (("wrk", "wrk"), ("nginx", "nginx-light")) if not shutil.which(tool)}
    if not missing:
        return
    wanted = f"{' and '.join(missing)} missing (Debian: apt-get install {' '.join(missing.values())})"
    if not shutil.which("apt-get"):
        raise ChildFailedError(f"{wanted}, and there is no apt-get here")
    if os.geteuid() != 0:
        raise ChildFailedError(f"{wanted}, and only root can install them")
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    try:
        subprocess.run([*apt, "update"], check=True, stdout=sys.stderr)
        subprocess.run([*apt, "install", *missing.values()], check=True, stdout=sys.stderr)
    except subprocess.CalledProcessError as error:
        raise ChildFailedError(f"{wanted}; {shlex.join(error.cmd)} ended with {error.returncode}") from error


def tool_versions() -> dict[str, str]:
    """Return the versions that wrk and nginx print."""
    wrk = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout.split()
    nginx = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=False).stderr.split("/")
    return {"wrk": wrk[1], "nginx": nginx[-1].strip()}
