"""`python -m tests.fuzz.shapes --seconds 300`: send bodies of hostile shapes made by chance to the real gateway.

Each is judged by how long it held the event loop, in processor time, by how much memory the gateway and its processes
took for it, and by its answer. The first that exceeds a bound, whenever it is sent, is named with the seed that makes
it again, and the exit status is 1.
"""

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass

import httpx
import msgspec
import uvloop

from benchmarks.hostile_shapes import FORM, JSON, SHAPES
from benchmarks.processes import Child, Processes, settings_before, start_gateway, start_stub_worker
from benchmarks.watched_gateway import PATH, Turns
from gateway.protocol.endpoints.table import ENDPOINTS

LIMIT_BYTES = 8 * 2**20
HOLD_MS = 25.0
"""Five times the bar of `benchmarks.hostile`: the machine may be busy with others."""
TRIES = 3
"""How often a body has to exceed a bound. The same bytes do the same each time, but a busy kernel now and then charges
the loop's thread with work that is not its own: 7 to 13 ms were seen, for bodies that take 1 ms."""
FACTOR = 8
SPARE_BYTES = 160 * 2**20
"""The processes that decode, as they start."""
ANSWERS = frozenset({200, 400, 404, 413, 415})
PATHS = sorted(path for path in ENDPOINTS if ENDPOINTS[path].media.decode() == JSON and "tokenize" not in path)
FIELDS = ("messages", "prompt", "input", "tools", "documents", "system", "user", "metadata", "stream_options", "x")
ATOMS = (
    *(b"{}", b"[]", b"0", b"1e5", b"-1.5", b"null", b"true", b'""', b'"a"', b'"\\u6f22"', b'"\\\\"', b'"\\""', b'","'),
    *(b'{"role":"user","content":"a"}', b'{"type":"text","text":"a"}', b'{"type":"tool_result","content":[{}]}'),
    *(b'{"a":{"b":[1,2]}}', b"[[1],[2]]", b'{"role":""}', b"\xe6\xbc\xa2", b"\xff", b"{", b"}", b"[", b'"', b"\\"),
)


@dataclass(frozen=True, slots=True)
class Example:
    """One body and where it goes."""

    path: str
    media: str
    body: bytes


def example(seed: int, *, limit: int = LIMIT_BYTES) -> Example:
    """The body that *seed* makes, of at most *limit* bytes: a known shape, or one put together by chance."""
    rng = random.Random(seed)
    size = int(1_000 * (limit / 1_000) ** rng.random())
    if rng.random() < 0.2:
        shape = rng.choice(list(SHAPES.values()))
        return Example(shape.path, shape.media, _damaged(rng, shape.make(size)))
    if rng.random() < 0.1:
        return Example("/v1/audio/transcriptions", FORM, _damaged(rng, _form(rng, size)))
    fields = rng.sample(FIELDS, rng.randint(1, 4))
    members = [b'"%b":%b' % (name.encode(), _value(rng, size // len(fields) - 20)) for name in fields]
    members.insert(rng.randint(0, len(members)), rng.choice([b'"model":"tiny"', b'"\\u006dodel":"tiny"']))
    if rng.random() < 0.3:
        members.append(b'"stream":true')
    body = b"{" + b",".join(members) + b"}"
    return Example(rng.choice(PATHS), JSON, _damaged(rng, body)[:limit])


def _value(rng: random.Random, size: int) -> bytes:
    """About *size* bytes of JSON, mostly."""
    match rng.randrange(5):
        case 0:
            piece = rng.choice([b"a", b"a,", b"[{", b"\\n", b"\\u6f22", b"\\\\", b'\\"', "漢".encode()])
            return b'"' + piece * (size // len(piece)) + b'"'
        case 1:
            levels = min(size // 2, rng.choice([10, 200, 300, 100_000]))
            return b"[" * levels + b"]" * levels
        case 2:
            wrapped = _value(rng, size - 20)
            return rng.choice([b"[%b]", b'[{"role":"user","content":%b}]', b'[{"a":[%b]}]']) % wrapped
        case 3:
            piece = b'"k%d":' % rng.randrange(10) + rng.choice(ATOMS) + b","
            return b"{" + piece * max(1, size // len(piece)) + b'"z":0}'
        case _:
            piece = b",".join(rng.choices(ATOMS[:19], k=rng.randint(1, 4))) + b","
            return b"[" + piece * (size // len(piece)) + b"0]"


def _form(rng: random.Random, size: int) -> bytes:
    head = b'--b\r\ncontent-disposition: form-data; name="%b"\r\n\r\n' % rng.choice([b"model", b"a[]", b"file"])
    piece = rng.choice([b"\r\n--b", b"\r\n--", b"\n--b\r\n", head + b"tiny\r\n", b"a", b"\r\n"])
    return head + b"tiny\r\n" + head + piece * (size // len(piece)) + b"\r\n--b--\r\n"


def _damaged(rng: random.Random, body: bytes) -> bytes:
    """*body*, every third time with some bytes of it replaced."""
    if rng.random() < 0.67:
        return body
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(body) + 1)
        body = body[:at] + rng.choice(ATOMS) + body[at + rng.randint(0, 3) :]
    return body


async def fault_of(gateway: Child, client: httpx.AsyncClient, example: Example) -> tuple[int, str | None]:
    """The status of the answer, and which bound *example* exceeded."""
    await client.get(PATH)
    before = most = gateway.rss_bytes()
    answering = asyncio.ensure_future(
        client.post(example.path, content=example.body, headers={"content-type": example.media})
    )
    while not answering.done():
        most = max(most, gateway.rss_bytes())
        await asyncio.wait([answering], timeout=0.005)
    status = answering.result().status_code
    turns = msgspec.json.decode((await client.get(PATH)).content, type=Turns)
    if turns.longest_cpu_ms > HOLD_MS:
        return status, f"held the loop for {turns.longest_cpu_ms:.1f} ms"
    if most - before > FACTOR * len(example.body) + SPARE_BYTES:
        return status, f"took {(most - before) / 1e6:.0f} MB"
    return status, None if status in ANSWERS else f"was answered {status}"


async def run(*, seconds: float, seed: int) -> int:
    """Send examples for *seconds*; 1 if one exceeded a bound."""
    statuses: Counter[int] = Counter()
    with Processes() as processes:
        _, worker = start_stub_worker(processes)
        command = (sys.executable, "-m", "benchmarks.watched_gateway")
        gateway, url = start_gateway(processes, settings_before(worker), command=command)
        async with httpx.AsyncClient(base_url=url, timeout=120) as client:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                tried = example(seed)
                for _ in range(TRIES):
                    status, fault = await fault_of(gateway, client, tried)
                    statuses[status] += 1
                    if fault is None:
                        break
                else:
                    sys.stdout.write(f"seed {seed}: {len(tried.body)} bytes to {tried.path}: {fault}\n")
                    return 1
                seed += 1
    listed = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))
    sys.stdout.write(f"{statuses.total()} requests: {listed}\n")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.shapes", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first body; default: by chance")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    return uvloop.run(run(seconds=arguments.seconds, seed=seed))


if __name__ == "__main__":
    sys.exit(main())
