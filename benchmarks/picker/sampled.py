"""`python -m benchmarks.picker.sampled FILE ...`: the command ``warmgate ...``, which counts where its time goes.

At each millisecond of processor time, the program records which part of the gateway runs. It writes the counts to FILE
as JSON after each SIGUSR1, and begins again. Compiled code has no frames, so the gateway must run from its sources.
"""

import json
import signal
import sys
from collections import Counter
from opcode import opmap
from pathlib import Path
from types import FrameType
from typing import Final

from benchmarks.processes import ROOT
from gateway.cli.main import main as warmgate

INTERVAL_S: Final = 0.001
LOOP: Final = "event loop, sockets"
"""Time outside all Python functions, which is that of uvloop."""
PARTS: Final = (
    "gateway/picker/http2",
    "gateway/picker",
    "gateway/proxy",
    "gateway/protocol",
    "gateway/models",
    "gateway/backends",
    "gateway/telemetry",
    "gateway/tenancy",
    "gateway/workers",
    "gateway",
    "routing",
    "cache_index",
)
"""Folders of the gateway, of which the first one that contains the code counts."""
_RESUME: Final = opmap["RESUME"]


def part_of(path: str, root: Path = ROOT) -> str | None:
    """Return the part of the gateway with the source file *path*, or None for code of others."""
    try:
        place = Path(path).relative_to(root).as_posix()
    except ValueError:
        return None
    return next((part for part in PARTS if place.startswith(f"{part}/")), None)


def running(frame: FrameType | None) -> str:
    """Return the part of the gateway that *frame* runs, or for which it runs code of others.

    Python handles a signal at the next step of its own code. A frame that only begins is not what ran before.
    """
    if frame is not None and frame.f_code.co_code[frame.f_lasti] == _RESUME:
        frame = frame.f_back
    while frame is not None:
        part = part_of(frame.f_code.co_filename)
        if part is not None and not frame.f_code.co_filename.startswith(str(ROOT / "gateway" / "cli")):
            return part
        frame = frame.f_back
    return LOOP


def main() -> int:
    file, *arguments = sys.argv[1:]
    counts: Counter[str] = Counter()

    def sample(_: int, frame: FrameType | None) -> None:
        counts[running(frame)] += 1

    def write(_: int, __: FrameType | None) -> None:
        target = Path(file)
        draft = target.with_suffix(".new")
        draft.write_text(json.dumps(counts))
        draft.replace(target)
        counts.clear()

    signal.signal(signal.SIGPROF, sample)
    signal.signal(signal.SIGUSR1, write)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    return warmgate(arguments)


if __name__ == "__main__":
    sys.exit(main())
