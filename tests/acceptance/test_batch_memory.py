"""Memory of a gateway that validates a batch of 50,000 lines and 200 MB. Run it with `make batch-memory`.

The validation runs in a process of its own, whose memory the test prints apart.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import openai

from simulator.server import serving
from tests.acceptance.test_batch_chaos import settings
from tests.e2e.gateway_process import gateway_process
from tests.e2e.stack import HELD_KEY, quick

LINES, LINE_BYTES = 50_000, 3_990
MAX_GROWTH_BYTES = 100 * 10**6
LOOK_S = 0.02


def written(path: Path) -> int:
    """Write the file, and return its size."""
    with path.open("wb") as file:
        for number in range(LINES):
            body = {"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
            body["messages"] = [{"role": "user", "content": f"{number % 500} " * 10 + "word " * 740 + str(number)}]
            line = {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": body}
            file.write(json.dumps(line).encode().ljust(LINE_BYTES) + b"\n")
        return file.tell()


def rss_bytes(process_id: int) -> int:
    """Resident memory of a process, or 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def children(process_id: int) -> Iterator[int]:
    for path in Path(f"/proc/{process_id}/task").glob("*/children"):
        try:
            yield from map(int, path.read_text().split())
        except OSError:
            continue


class Peak:
    """Highest memory of a process and of its children together."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self.own = self.children = 0

    async def watch(self) -> None:
        """Look until canceled."""
        while True:
            self.own = max(self.own, rss_bytes(self._process_id))
            self.children = max(self.children, sum(map(rss_bytes, children(self._process_id))))
            await asyncio.sleep(LOOK_S)


async def test_a_large_file_is_validated_within_its_memory(tmp_path: Path) -> None:
    size = await asyncio.to_thread(written, tmp_path / "lines.jsonl")
    async with (
        serving(quick()) as worker,
        gateway_process(tmp_path, settings(tmp_path, f"sqlite:///{tmp_path / 'db'}", [worker])) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=HELD_KEY, timeout=600) as api,
    ):
        await api.files.list()
        before = rss_bytes(gateway.process.pid)
        peak = Peak(gateway.process.pid)
        watching = asyncio.ensure_future(peak.watch())
        file = await api.files.create(file=tmp_path / "lines.jsonl", purpose="batch")
        batch = await api.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        async with asyncio.timeout(600):
            while (batch := await api.batches.retrieve(batch.id)).status == "validating":
                await asyncio.sleep(0.1)
        uploaded = peak.own - before
        await asyncio.sleep(10)  # lines run meanwhile
        watching.cancel()
        await asyncio.wait([watching])
        counts = batch.request_counts
        await api.batches.cancel(batch.id)

        sys.stdout.write(
            f"\n{LINES} lines, {size / 1e6:.0f} MB: the gateway grew by {uploaded / 1e6:.0f} MB until the lines ran, "
            f"and by {(peak.own - before) / 1e6:.0f} MB in all; the process that validates took "
            f"{peak.children / 1e6:.0f} MB\n"
        )
        assert batch.status == "in_progress"
        assert counts is not None
        assert counts.total == LINES
        assert peak.own - before <= MAX_GROWTH_BYTES
