"""Validation of input files in a process of their own, so that neither its time nor its memory burden the gateway."""

import asyncio
import sys

import msgspec

from gateway.batch.contents import ContentWriter, LocalContent
from gateway.batch.plan import PlanJob, Planned
from gateway.protocol.errors import FilesUnavailable

CHILD = ("-m", "gateway.batch.plan_child")
PIECE_BYTES = 2**18
"""Bytes of the order of the lines to read at once."""


async def planned(job: PlanJob, content: LocalContent, plan: ContentWriter) -> Planned:
    """Validate *content* in another process, and return the result. Write the order of the lines to *plan*.

    The path of *job* is replaced by that of *content*.

    Raises:
        FilesUnavailable: if the process could not be started, or ended without a result, or if *plan* takes no data.
    """
    file = content.file.fileno()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *CHILD),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(file,),
            env={},
        )
    except OSError as fault:
        raise FilesUnavailable(f"The validation could not be started: {fault.strerror}", retry_after_s=5) from None
    try:
        found = await _result(process, msgspec.structs.replace(job, input=f"/dev/fd/{file}"), plan)
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if found is None or status != 0:
        raise FilesUnavailable(f"The validation ended with status {status}", retry_after_s=5)
    return found


async def _result(process: asyncio.subprocess.Process, job: PlanJob, plan: ContentWriter) -> Planned | None:
    """Return the result of *process*, or None if it ended without one."""
    assert process.stdin is not None, "it is a pipe"
    assert process.stdout is not None, "it is a pipe"
    try:
        process.stdin.write(msgspec.json.encode(job))
        await process.stdin.drain()
        process.stdin.close()
        size = int.from_bytes(await process.stdout.readexactly(8), "big")
        found = msgspec.json.decode(await process.stdout.readexactly(size), type=Planned)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    while data := await process.stdout.read(PIECE_BYTES):
        await plan.write(data)
    return found
