"""Load generator wrk, which sends requests in a closed loop with one request per connection."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

TIMEOUT_S = 30
"""Seconds after which an answer counts as an error. wrk's default of 2 s would cut answers of slow proxies."""

SCRIPT = """
local requests, last = {}, 0

function init(arguments)
  for body in io.lines(arguments[1]) do
    requests[#requests + 1] = wrk.format("POST", nil, {
      ["content-type"] = "application/json", authorization = "Bearer " .. arguments[2]
    }, body)
  end
end

function request()
  last = last % #requests + 1
  return requests[last]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format('{"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, "errors": %d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of wrk."""

    answers: int
    took_s: float
    p50_ms: float
    p99_ms: float
    errors: int
    """Number of answers with status 400 and above, timeouts, and broken connections."""

    @classmethod
    def in_output(cls, printed: str) -> Self:
        """Return the last object in the output of the wrk script."""
        reported = json.loads(printed[printed.rindex("{") :])
        return cls(
            answers=reported["requests"],
            took_s=reported["duration_us"] / 1e6,
            p50_ms=reported["p50_us"] / 1e3,
            p99_ms=reported["p99_us"] / 1e3,
            errors=reported["errors"],
        )


def command(url: str, *, script: Path, bodies: Path, connections: int, seconds: float, secret: str) -> Sequence[str]:
    """Return the wrk command that sends the requests in the file *bodies*, one per line, to *url* for whole seconds.

    *script* is a file with `SCRIPT` in it, and *secret* the API key or the token of all requests.
    """
    options = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}", f"--timeout={TIMEOUT_S}s", "-s", str(script)]
    return ["wrk", *options, url, "--", str(bodies), secret]
