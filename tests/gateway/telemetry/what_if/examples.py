"""Jobs, and folders with recorded requests."""

from pathlib import Path

from gateway.protocol.usage import Usage
from gateway.proxy.completed_requests import CompletedRequest
from gateway.telemetry.what_if.job import Change, Engine, FleetShape, Job
from tests.gateway.telemetry.shapes.examples import completed, recorded

ENGINE = Engine(prefill_fixed_s=0.01, prefill_s_per_token=0.001, decode_s=0.01, decode_slope_s=0.0)


def conversations(count: int = 12, *, ttft_s: float = 0.1) -> list[CompletedRequest]:
    """Conversations of three turns, of two teams and on two workers; 512 tokens more with each turn."""
    found = []
    for number in range(count):
        text = "".join(chr(0x1000 + 200 * number + block) for block in range(96))
        for turn in range(3):
            tokens = 512 * (turn + 1)
            one = completed(
                text[: 32 * (turn + 1)],
                4.0 * number + 10.0 * turn,
                team=("blue", "red")[number % 2],
                worker=f"w{number % 2}",
                usage=Usage(tokens, 40, tokens - 512),
                lasts_s=2.0,
            )
            one.exchange.first_byte = one.exchange.started + ttft_s
            found.append(one)
    return found


def folder(directory: Path, *, ttft_s: float = 0.1) -> Path:
    """Return a folder with the recorded shapes of `conversations`."""
    recorded(directory, *conversations(ttft_s=ttft_s))
    return directory


def a_job(directory: Path | None, *changes: Change, trace: str | None = None, gpu_hour_usd: float | None = None) -> Job:
    return Job(
        "tiny",
        FleetShape("prefix_aware", 3, 100_000),
        (ENGINE,),
        changes,
        directory=None if directory is None else str(directory),
        trace=trace,
        gpu_hour_usd=gpu_hour_usd,
    )
