"""Process that validates one input file at low priority. It reads the job from its standard input, and writes the
result to its standard output.
"""

import os
import sys

import msgspec

from gateway.batch.plan import LineFault, PlanJob, Planned, plan

NICENESS = 19


def main() -> int:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=PlanJob)
    os.nice(NICENESS)
    try:
        found = plan(job)
    except OSError as fault:
        text = f"The input file could not be read: {fault.strerror}"
        found = Planned(0, [LineFault("unreadable_file", text, "input_file_id", None)], {})
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
