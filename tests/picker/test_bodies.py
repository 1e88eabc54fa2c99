"""Bodies that Envoy cannot keep, and answers that do not pass through the picker."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from tests.picker.rig import PATIENCE_S, Rig, rig

ONE_MIB = 2**20
SMALL = b'{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}'
CHUNKS = b"".join(b"%x\r\n%b\r\n" % (100_000, b" " * 100_000) for _ in range(30))
"""The beginning of a body of unknown length, with 3 MB."""


async def answer_to(there: Rig, header: str, body: bytes) -> tuple[bytes, bytes]:
    """Return the status line and the body of the answer to a request that may be incomplete."""
    host, _, port = there.envoy.address.partition(":")
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as exits:
        reader, writer = await asyncio.open_connection(host, int(port))
        exits.callback(writer.close)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{header}\r\n\r\n"
        writer.write(head.encode() + body)
        status = (await reader.readline()).strip()
        length = 0
        while (line := await reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            length = int(value) if name == b"content-length" else length
        return status, await reader.readexactly(length)


async def test_a_body_above_the_buffer_is_refused_at_once(tmp_path: Path) -> None:
    """The announced length decides. Envoy itself would let the request wait until the client gives up."""
    async with rig(tmp_path, 1, body_mode="BUFFERED", buffer_bytes=ONE_MIB, max_buffered_bytes=ONE_MIB) as there:
        status, body = await answer_to(there, f"content-length: {ONE_MIB + 1}", b"")
        small = await there.chat()

    assert (b"HTTP/1.1 413 Payload Too Large", 200) == (status, small.status_code)
    assert b"picker.max_buffered_bytes" in body


async def test_a_body_without_a_length_is_refused_in_the_mode_for_parts(tmp_path: Path) -> None:
    """In the mode BUFFERED_PARTIAL, the picker sees that Envoy could not keep the body. Shorter bodies are served."""
    async with rig(tmp_path, 1, body_mode="BUFFERED_PARTIAL", answer_mode="BUFFERED", buffer_bytes=ONE_MIB) as there:
        status, body = await answer_to(there, "transfer-encoding: chunked", CHUNKS)
        small, _ = await answer_to(there, "transfer-encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMALL), SMALL))
        renamed = await there.chat("a short prompt", model="gpt-4o")

    assert b"HTTP/1.1 413 Payload Too Large" == status
    assert b"per_connection_buffer_limit_bytes" in body
    assert (b"HTTP/1.1 200 OK", 200, "gpt-4o") == (small, renamed.status_code, renamed.json()["model"])


async def test_answers_need_not_pass_through_the_picker(tmp_path: Path) -> None:
    """With the answer mode NONE, streams go from the worker to the client, and the slot is free after each answer."""
    async with rig(tmp_path, 2, answer_mode="NONE") as there:
        whole = await there.chat("whole")
        streamed = await there.chat("streamed", stream=True)
        async with asyncio.timeout(PATIENCE_S):
            while await running(there):
                await asyncio.sleep(0.05)

    assert (200, "chat.completion") == (whole.status_code, whole.json()["object"])
    assert (200, "data: [DONE]") == (streamed.status_code, streamed.text.splitlines()[-2])


async def running(there: Rig) -> float:
    """Return the number of requests that the picker counts as running on workers."""
    lines = (await there.picker.http.get("/metrics")).text.splitlines()
    counts = [float(line.rpartition(" ")[2]) for line in lines if line.startswith("warmgate_requests_in_flight{")]
    assert counts
    return sum(counts)
