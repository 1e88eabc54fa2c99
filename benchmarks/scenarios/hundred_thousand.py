"""100,000 requests of 4,000 tokens in and 800 out, in the mean, on two machines of eight GPUs each.

What was published elsewhere for as many requests to a reasoning model says no more than the two lengths. Here they are
chats, for that is what has prefixes to be found again: sessions begin as a Poisson process, a prompt holds all that was
said before it, and one session has nothing but the system's prompt in common with another.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from benchmarks.report import Cell, Report, Table
from benchmarks.scenarios.conversations import Conversations
from benchmarks.scenarios.outcome import cost_usd
from benchmarks.scenarios.tables import Found, costs, median, sensitivity, times
from benchmarks.scenarios.trial import Beginning, Bench, Case, Fleet

GPUS = 16
FLEET = Fleet(GPUS)
REQUESTS, PART, CHUNKED_PART = 100_000, 15_000, 4_000
MEAN_TURNS = 4.0
CONVERSATIONS = Conversations(
    sessions=int(REQUESTS / MEAN_TURNS),
    turns=(1, 7),
    system_tokens=600,
    opening_tokens=(500, 2_500),
    question_tokens=(50, 250),
    answer_tokens=(400, 1_200),
    think_s=20.0,
)
"""A request has two turns before it in the mean: 600 + 1,500 + 2 * (150 + 800) = 4,000 tokens."""
PER_S = 25.0
"""Requests per second: round robin's GPUs are half busy with prompts, and running answers fill half of the caches."""
TTFT_P90_LIMIT_S = 1.0
RATES_PER_S = (10.0, 20.0, 25.0, 30.0, 32.5, 35.0)
CHUNKED_SHARE = 4
"""Divisor of fleet and rate: every token of an answer is an event of such engines."""
TITLE = f"{REQUESTS:,} requests of 4,000 tokens in and 800 out, {GPUS} GPUs"
FIGURES = {"ttft_mean_s": "TTFT mean", "ttft_p90_s": "TTFT p90", "latency_mean_s": "latency mean"}


def record(bench: Bench, report: Report, usd_per_hour: float) -> None:
    """Tables, into *report*. The large run has one seed: it is its own repetition."""
    one = bench.with_one_seed()
    (found,) = one.outcomes([Case(TITLE, _at(PER_S), FLEET)])
    asked = f"{TITLE}, {PER_S:g} requests per second"
    report.tables += [times(asked, found), costs(f"{asked}: cost", found, usd_per_hour)]
    report.figures[TITLE] = found
    loads = {f"{per_s:g}": _at(per_s, PART) for per_s in RATES_PER_S}
    swept = dict(zip(loads, one.outcomes([Case(name, load, FLEET) for name, load in loads.items()]), strict=True))
    report.tables.append(sensitivity(f"{PART:,} requests at other rates", "requests per second", swept, FIGURES))
    report.tables.append(capacity(swept, usd_per_hour))
    report.figures["rates"] = swept
    _record_chunked(one, report)
    report.notes += [
        f"Sessions of {CONVERSATIONS.turns[0]} to {CONVERSATIONS.turns[1]} turns; a system prompt of "
        f"{CONVERSATIONS.system_tokens} tokens that all share, an opening of {CONVERSATIONS.opening_tokens[0]} to "
        f"{CONVERSATIONS.opening_tokens[1]:,}, questions of {CONVERSATIONS.question_tokens[0]} to "
        f"{CONVERSATIONS.question_tokens[1]}, answers of {CONVERSATIONS.answer_tokens[0]} to "
        f"{CONVERSATIONS.answer_tokens[1]:,}, {CONVERSATIONS.think_s:g} s in the mean before the next question.",
        "Published for 100,000 requests of these lengths: TTFT 3 times as fast, latency 2 times, the load unknown. "
        "Latency is mostly the time of 800 tokens, which no router shortens: it doubles only where prefill is "
        "overloaded without routing, or slows down the answers that are being written, as in engines that batch with "
        "chunked prefill.",
        "At one rate everybody pays for the same GPUs; what a strategy saves is told by the highest rate it bears.",
    ]


def _record_chunked(bench: Bench, report: Report) -> None:
    fleet = Fleet(GPUS // CHUNKED_SHARE, timing="chunked")
    loads = {f"{per_s:g}": _at(per_s, CHUNKED_PART) for per_s in (PER_S / CHUNKED_SHARE, 1.2 * PER_S / CHUNKED_SHARE)}
    found = dict(zip(loads, bench.outcomes([Case(name, load, fleet) for name, load in loads.items()]), strict=True))
    title = f"{CHUNKED_PART:,} requests, {fleet.workers} GPUs, engines that batch with chunked prefill"
    report.tables.append(sensitivity(title, "requests per second", found, FIGURES))
    report.figures["chunked"] = found


def _at(per_s: float, requests: int = REQUESTS) -> Beginning:
    conversations = dataclasses.replace(CONVERSATIONS, sessions=int(requests / MEAN_TURNS))
    return Beginning(conversations, per_s / MEAN_TURNS)


def capacity(swept: Mapping[str, Found], usd_per_hour: float) -> Table:
    """The highest of the rates at which a strategy's TTFT p90 is within the limit, as at all below, and its cost."""
    rows: list[Sequence[Cell]] = []
    for strategy in next(iter(swept.values())):
        best = None
        for outcomes in swept.values():
            if median(outcomes, strategy, "ttft_p90_s") > TTFT_P90_LIMIT_S:
                break
            best = outcomes
        if best is None:
            rows.append((strategy, None, None, None))
        else:
            gpu_s = median(best, strategy, "gpu_s")
            rows.append((strategy, median(best, strategy, "answers_per_s"), gpu_s, cost_usd(gpu_s, usd_per_hour)))
    columns = ("strategy", "answers per s", "GPU-s per 1,000 requests", "USD per 1,000 requests")
    return Table(f"Highest of these rates with TTFT p90 of at most {TTFT_P90_LIMIT_S:g} s", columns, rows)
