"""The request that the chart's notes show, sent by a shell to a real gateway with simulated workers."""

import asyncio
import re
from typing import Any

import pytest

from tests.deploy.chart import install, tiny
from tests.e2e.stack import Stack, quick, stack

KEY = "the-key-of-team-blue"
TEAMS = [{"name": "blue", "keys": [{"id": "a", "secret": KEY}]}]


def commands(**server: Any) -> str:
    """The lines of the notes that set the prompt and send the request."""
    notes = install(tiny(config={"server": server})).notes
    begin = notes.index("  PROMPT=")
    return notes[begin : notes.index("\n\n", begin)]


async def sent(gateway: Stack, script: str) -> dict[str, str]:
    """Run *script* in a shell before *gateway*. Returns the status and the headers of the answer."""
    shell = await asyncio.create_subprocess_exec(
        *("sh", "-euc", script.replace("http://127.0.0.1:8080", gateway.url)),
        env={"KEY": KEY, "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        output, _ = await shell.communicate()
    head = output.decode().partition("\r\n\r\n")[0]
    return {"status": head.split()[1], **dict(re.findall(r"^([\w-]+): (.*?)\r?$", head, re.MULTILINE))}


@pytest.mark.parametrize("block_size", [16, 64, 256])
async def test_the_second_request_of_the_notes_hits(block_size: int) -> None:
    """The prompt is longer than a block of any common size."""
    options = quick(block_size=block_size)
    server = {"hit_headers": "shared"}
    async with stack(3, options=options, teams=TEAMS, server=server) as gateway:
        first = await sent(gateway, commands(**server))
        second = await sent(gateway, commands(**server))

    assert ("200", "0") == (first["status"], first["x-warmgate-hit-blocks"])
    assert "200" == second["status"]
    assert first["x-warmgate-worker"] == second["x-warmgate-worker"]
    assert int(second["x-warmgate-hit-blocks"]) > 0


async def test_without_hit_headers_the_log_shows_the_hit() -> None:
    async with stack(3, teams=TEAMS) as gateway:
        answers = [await sent(gateway, commands()) for _ in range(2)]
        lines = await gateway.lines(2)

    assert answers[0]["x-warmgate-worker"] == answers[1]["x-warmgate-worker"]
    assert [] == [answer for answer in answers if "x-warmgate-hit-blocks" in answer]
    assert [True, False] == [line["hit_tokens"] == 0 for line in lines]


def test_the_notes_promise_a_header_only_where_it_comes() -> None:
    promised = "and more than 0 in x-warmgate-hit-blocks."

    assert promised in install(tiny(config={"server": {"hit_headers": "shared"}})).notes
    assert promised not in install(tiny()).notes
    assert "hit_tokens above 0" in install(tiny()).notes
