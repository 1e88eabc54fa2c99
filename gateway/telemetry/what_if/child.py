"""Process that replays one what-if job at low priority. It reads the job from its standard
input, and writes messages to its standard output.
"""

import os
import resource
import sys

import msgspec

from gateway.telemetry.what_if.job import Job, Message
from gateway.telemetry.what_if.replays import result_of

NICENESS = 19


def limit(job: Job) -> None:
    """Lower the priority of this process, and limit its memory and processor time."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (job.max_memory_bytes, job.max_memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (job.max_cpu_s, job.max_cpu_s + 5))


def send(message: Message) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def main() -> int:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    limit(job)
    try:
        message = Message(result=result_of(job, send))
    except (OSError, ValueError) as fault:
        message = Message(error=str(fault))
    except MemoryError:
        message = Message(error="The replay needs too much memory. Replay a shorter time.")
    send(message)
    return 0


if __name__ == "__main__":
    sys.exit(main())
