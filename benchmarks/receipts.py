"""Memory and time of receipts: decisions of a real fleet, packed into the ring that keeps the latest ones.

The benchmark drives the ring directly with a million requests. It measures the memory of the full ring, whether the
memory stays the same afterwards, and how long it takes to find a receipt among all of them.

Exit status: 0 if all targets are met, 1 if one is missed.
"""

import argparse
import gc
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import Bar, Circumstances, Report, Table, argument_parser, conclude
from cache_index import Hasher, RadixTree, WorkerId
from gateway.protocol.usage import Usage
from gateway.proxy.completed_requests import CompletedRequest
from gateway.proxy.decision import Decision
from gateway.proxy.exchange import Exchange
from gateway.telemetry.receipts.receipt import receipt_of, summary_of
from gateway.telemetry.receipts.ring import ReceiptFilter, ReceiptRing
from routing.booking import Ending, Outcome
from routing.dispatcher import Immediate
from routing.fleet import Fleet
from routing.request import Request
from routing.strategies.by_name import StrategiesByName
from routing.strategies.prefix_aware import PrefixAware

BLOCK_BYTES = 256
PROMPT_BLOCKS = 16
SESSIONS = 500
BATCH = 100
"""Number of requests that end within the time of one batch."""
MAX_MIB = 16.0
MAX_GROWTH_MIB = 1.0
MAX_FIND_MS = 100.0
LOOKUPS = 50
MIB = 2**20
PACKAGES = ("msgspec", "numpy")


def main() -> int:
    arguments = parse_arguments()
    return conclude("receipts", lambda: measure(arguments), results=arguments.results, cannot_run=[])


def measure(arguments: argparse.Namespace) -> Report:
    """Fill the ring, go on with further requests, and return the report."""
    circumstances = Circumstances.observe(seed=arguments.seed, packages=PACKAGES)
    report = Report("receipts", "Receipts of past requests", circumstances)
    requests = endless(random.Random(arguments.seed), workers=arguments.workers)
    ring = ReceiptRing(arguments.size, clock=time.monotonic, wall_clock=time.time)
    batch = [next(requests) for _ in range(BATCH)]  # decisions of the fleet exist before memory is measured
    before = memory_bytes()
    spent_s = fill(ring, batch, arguments.size)
    full_mib = (memory_bytes() - before) / MIB
    fill(ring, batch, arguments.requests - arguments.size)
    after_mib = (memory_bytes() - before) / MIB
    finds_ms = sorted(find_ms(ring, number) for number in numbers(arguments))
    pages_ms = sorted(page_ms(ring) for _ in range(LOOKUPS))
    report.bars = [
        Bar(f"MiB of {arguments.size:,} receipts", full_mib, "<=", MAX_MIB),
        Bar(f"MiB more after {arguments.requests:,} requests", after_mib - full_mib, "<=", MAX_GROWTH_MIB),
        Bar("ms to find a receipt by its id, and to show it, at most", finds_ms[-1], "<=", MAX_FIND_MS),
    ]
    rows: list[tuple[str, float]] = [
        ("bytes per receipt", full_mib * MIB / arguments.size),
        ("microseconds to keep a receipt", spent_s / arguments.size * 1e6),
        ("ms to find a receipt by its id, and to show it, median", finds_ms[LOOKUPS // 2]),
        ("ms for 100 receipts of one team, median", pages_ms[LOOKUPS // 2]),
    ]
    report.tables = [Table(f"{arguments.workers} workers, at most 8 candidates in a receipt", ("", "measured"), rows)]
    report.notes = ["The gateway runs from the sources. The compiled gateway takes less time and less memory."]
    return report


def fill(ring: ReceiptRing, batch: list[CompletedRequest], count: int) -> float:
    """Add *count* receipts with ids of their own, in batches. Return the processor time of the ring in seconds."""
    spent_s = 0.0
    for _ in range(count // len(batch)):
        for place, each in enumerate(batch):
            each.exchange.request_id = b"%032x" % (ring.total + place)
        began = time.process_time()
        ring.observe(batch)
        spent_s += time.process_time() - began
    return spent_s


def numbers(arguments: argparse.Namespace) -> list[int]:
    """Return numbers of kept receipts, from the oldest to the latest."""
    oldest = arguments.requests - arguments.size
    return [oldest + place * (arguments.size - 1) // (LOOKUPS - 1) for place in range(LOOKUPS)]


def find_ms(ring: ReceiptRing, number: int) -> float:
    began = time.perf_counter()
    found = ring.find(b"%032x" % number)
    assert found is not None, "the receipt is kept"
    receipt_of(*found)
    return (time.perf_counter() - began) * 1e3


def page_ms(ring: ReceiptRing) -> float:
    began = time.perf_counter()
    for found in ring.newest(ReceiptFilter(team="team-7"), limit=100):
        summary_of(*found)
    return (time.perf_counter() - began) * 1e3


def memory_bytes() -> int:
    """Return the resident memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def endless(rng: random.Random, *, workers: int) -> Iterator[CompletedRequest]:
    """Yield completed requests of sessions whose prompts a fleet has routed."""
    hasher = Hasher(rng.randbytes(32), block_bytes=BLOCK_BYTES)
    index = RadixTree(max_bytes=64 * MIB, default_capacity=10_000)
    fleet = Fleet(index, block_bytes=BLOCK_BYTES)
    fleet.set_workers([WorkerId(f"worker-{number}") for number in range(workers)], 0.0)
    dispatcher = Immediate(fleet, StrategiesByName("prefix_aware", lambda _: PrefixAware(rng)))
    texts = [rng.randbytes(PROMPT_BLOCKS * BLOCK_BYTES) for _ in range(SESSIONS)]
    now = 0.0
    while True:
        now += 0.01
        session = rng.randrange(SESSIONS)
        request = Request(hasher.prefix(texts[session]), len(texts[session]), 1024.0, 100.0, session=f"s-{session}")
        dispatcher.submit(request, now)
        (dispatch,) = dispatcher.poll(now)
        assert dispatch.booking is not None, "all workers are up"
        fleet.bookings.first_byte(dispatch.booking, now + 0.1)
        fleet.bookings.release(dispatch.booking, Outcome(Ending.ANSWERED, 1024, 512, 100), now + 0.5)
        exchange = Exchange(b"", "/v1/chat/completions", now)
        exchange.team, exchange.key, exchange.model = f"team-{session % 10}", f"key-{session % 50}", "tiny"
        exchange.session = b"blake2b:%032x" % session
        exchange.strategy, exchange.reason = dispatch.strategy, dispatch.reason
        exchange.backend, exchange.attempts, exchange.status = dispatch.order[0].worker, 1, 200
        exchange.prompt_tokens, exchange.usage, exchange.first_byte = 1024.0, Usage(1024, 100, 512), now + 0.1
        exchange.decision = Decision(dispatch, fleet, now)
        yield CompletedRequest(exchange, now + 0.5)


def parse_arguments() -> argparse.Namespace:
    parser = argument_parser("receipts", __doc__)
    parser.add_argument("--size", type=int, default=20_000, help="of the ring, in receipts")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=8)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
