"""Process that validates one input file at low priority. It reads the job from its standard input. To its standard
output it writes the length of the result in eight bytes, the result, and the order of the lines.
"""

import os
import sys

import msgspec

from gateway.batch.plan import LineFault, PlanJob, Planned, packed, plan

NICENESS = 19
LINES = 10_000
"""Lines to write at once."""


def main() -> int:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=PlanJob)
    os.nice(NICENESS)
    try:
        found, lines = plan(job)
    except OSError as fault:
        text = f"The input file could not be read: {fault.strerror}"
        found, lines = Planned(0, [LineFault("unreadable_file", text, "input_file_id", None)], {}), []
    result = msgspec.json.encode(found)
    sys.stdout.buffer.write(len(result).to_bytes(8, "big") + result)
    for at in range(0, len(lines), LINES):
        sys.stdout.buffer.write(packed(lines[at : at + LINES]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
