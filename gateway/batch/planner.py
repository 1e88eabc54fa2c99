"""Validation of input files in a process of their own, so that neither its time nor its memory burden the gateway."""

import asyncio
import sys

import msgspec

from gateway.batch.plan import PlanJob, Planned
from gateway.protocol.errors import FilesUnavailable

CHILD = ("-m", "gateway.batch.plan_child")


async def planned(job: PlanJob) -> Planned:
    """Validate the file of *job* in another process, and return the result.

    Raises:
        FilesUnavailable: if the process could not be started, or ended without a result.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *CHILD, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env={}
        )
    except OSError as fault:
        raise FilesUnavailable(f"The validation could not be started: {fault.strerror}", retry_after_s=5) from None
    try:
        output, _ = await process.communicate(msgspec.json.encode(job))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise FilesUnavailable(f"The validation ended with status {process.returncode}", retry_after_s=5)
    return msgspec.json.decode(output, type=Planned)
