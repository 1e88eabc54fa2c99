"""What `helm test` runs says whether a release answers: here against a real gateway and a simulated worker."""

import asyncio
import sys

import pytest

from tests.deploy.chart import CHART
from tests.e2e.stack import Stack, stack

KEY = "the-key-of-team-blue"
TEAMS = [{"name": "blue", "keys": [{"id": "a", "secret": KEY}]}]


async def reported(gateway: Stack, **variables: str) -> tuple[int | None, str]:
    """Exit code and output of the script."""
    script = await asyncio.create_subprocess_exec(
        sys.executable,
        CHART / "files" / "answers.py",
        env={"GATEWAY": gateway.url, "MODEL": "tiny", **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(30):
        output, _ = await script.communicate()
    return script.returncode, output.decode()


@pytest.mark.parametrize(
    ("variables", "code", "said"),
    [
        ({"KEY": KEY}, 0, '"object":"chat.completion"'),
        ({}, 0, "/v1/chat/completions 401"),
        ({"KEY": "another"}, 1, "/v1/chat/completions 401"),
        ({"KEY": KEY, "MODEL": "unknown"}, 1, "/v1/chat/completions 404"),
    ],
)
async def test_a_release_that_answers_is_good(variables: dict[str, str], code: int, said: str) -> None:
    """With a key by a completion; without one by its refusal. No key is written down."""
    async with stack(1, teams=TEAMS) as gateway:
        exit_code, output = await reported(gateway, **variables)

    assert code == exit_code
    assert said in output
    assert KEY not in output


async def test_a_gateway_that_lets_everybody_in_is_not_good() -> None:
    """No one wants that of a release, though a pod would not do so: only the gateway's own machine is let in."""
    async with stack(1) as gateway:
        exit_code, output = await reported(gateway)

    assert (1, True) == (exit_code, "/v1/chat/completions 200" in output)


async def test_a_gateway_without_workers_is_not_good() -> None:
    """It is not ready, and says why."""
    async with stack(0, model={"workers_file": "nowhere.yaml"}, teams=TEAMS) as gateway:
        exit_code, output = await reported(gateway, KEY=KEY)

    assert (1, True) == (exit_code, "/readyz 503" in output)
