"""Figures of docs/performance/at-a-glance.md, each with its position in a report."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.report import Report, Spread, Table

T = TypeVar("T")
Pick = Callable[[Report], float]
"""Function that finds one figure in a report, and raises `LookupError` if the figure is missing."""


@dataclass(frozen=True, slots=True)
class Headline:
    """Question, and an answer whose placeholders (`str.format`) are filled with figures of one report."""

    question: str
    answer: str
    report: str
    figures: tuple[Pick, ...] = ()

    def row(self, reports: Mapping[str, Report]) -> str:
        """Return a line of the page's table. Raises `LookupError` if a report or figure is missing."""
        figures = [pick(reports[self.report]) for pick in self.figures]
        answer = self.answer.format(*figures)
        return f"| {self.question} | {answer} | [{self.report}.md](../../benchmarks/results/{self.report}.md) |"


def bar(beginning: str) -> Pick:
    """Pick the value of the only target whose text begins with *beginning*."""

    def pick(report: Report) -> float:
        return _only((each.value for each in report.bars if each.what.startswith(beginning)), beginning, report)

    return pick


def cell(table: str, row: str, column: str) -> Pick:
    """Pick the median in the row that begins with *row*, of the only table whose title begins with *table*."""

    def pick(report: Report) -> float:
        return _figure(
            _only((each for each in report.tables if each.title.startswith(table)), table, report), row, column
        )

    return pick


def first_cell(row: str, column: str) -> Pick:
    """Pick a cell of the first table, like `cell` does for other tables."""
    return lambda report: _figure(report.tables[0], row, column)


def gain(of: Pick, over: Pick) -> Pick:
    """Pick the share by which *of* is below *over*."""
    return lambda report: 1 - of(report) / over(report)


def table(headlines: tuple[Headline, ...], reports: Mapping[str, Report]) -> str:
    """Return the page's table, with all headlines whose reports exist, in their order."""
    reported = [each.row(reports) for each in headlines if each.report in reports]
    return "\n".join(["| question | answer | from |", "|---|---|---|", *reported])


def _figure(table: Table, row: str, column: str) -> float:
    for cells in table.rows:
        if str(cells[0]) == row:
            value = cells[list(table.columns).index(column)]
            value = value.median if isinstance(value, Spread) else value
            if isinstance(value, int | float):
                return value
    raise LookupError(f"{table.title}: {row!r} has no figure under {column!r}")


def _only(found: Iterable[T], what: str, report: Report) -> T:
    several = list(found)
    if len(several) != 1:
        raise LookupError(f"{report.name} has {len(several)} of {what!r}, not one")
    return several[0]


AGENTS = "Coding agents ("
LIVE = "100 conversations"
MEAN = "TTFT mean s"
OVERLOAD = "Coding agents, more than the caches hold ("
SPEED = "Chat, 5,712 blocks: highest speed at which TTFT p90 is at most 4 s ("
SPEEDS = "times the recorded speed"
PRODUCT = "gateway (uvicorn)"

HEADLINES = (
    Headline(
        "How much of what an infinite cache would hit does `prefix_aware` hit on recorded conversations?",
        "{:.1%} (`round_robin`: {:.0%})",
        "live",
        (bar("prefix_aware's hit rate"), cell(LIVE, "round_robin", "of the bound")),
    ),
    Headline(
        "Its TTFT p50 and p90 there, as a share of `round_robin`'s",
        "{:.2f} and {:.2f}",
        "live",
        (bar("prefix_aware: TTFT p50"), bar("prefix_aware: TTFT p90")),
    ),
    Headline(
        "Highest speed of a recorded chat trace at which TTFT p90 stays within 4 s",
        "`kv_aware` {:.2f} times as recorded, `prefix_aware` {:.2f} (`round_robin`: {:.2f})",
        "replay",
        (cell(SPEED, "kv_aware", SPEEDS), cell(SPEED, "prefix_aware", SPEEDS), cell(SPEED, "round_robin", SPEEDS)),
    ),
    Headline(
        "Mean TTFT of recorded coding agents, 128 users",
        "`kv_aware` {:.1f} s, `prefix_aware` {:.1f} s (llm-d's policy: {:.1f} s, SGLang's: {:.0f} s, "
        "Dynamo's at its best: {:.0f} s, `round_robin`: {:.0f} s)",
        "replay",
        tuple(
            cell(AGENTS, name, MEAN)
            for name in ("kv_aware", "prefix_aware", "llm_d", "sglang_cache_aware", "dynamo_64", "round_robin")
        ),
    ),
    Headline(
        "The same where their contexts are more than the caches hold",
        "`kv_aware` {:.1f} s (the best published policy, late binding with ageing: {:.0f} s)",
        "replay",
        (cell(OVERLOAD, "kv_aware", MEAN), cell(OVERLOAD, "policy_b", MEAN)),
    ),
    Headline(
        "What rates believed twice too high, events a second late and 5 % of them lost do to `kv_aware`'s mean TTFT "
        "(coding agents)",
        "times {:.2f}",
        "replay",
        (bar("Coding agents, rate believed twice too high"),),
    ),
    *(
        Headline(
            f"{what} over HTTP before the same workers, at {load}: `kv_aware`'s mean TTFT, of that router's",
            "{:.2f}",
            f"peers_routing_{name}",
            (bar("kv_aware: TTFT mean"),),
        )
        for name, what, load in (
            ("tau", "Recorded conversations with tools", "a load that puts the best other router's TTFT p90 above 4 s"),
            ("conversation", "Recorded chats", "the load where the best other router's TTFT p90 is about 4 s"),
            ("agentic", "20 recorded coding agents", "the load where the best other router's TTFT p90 is about 4 s"),
        )
    ),
    Headline(
        "Recorded chats in Dynamo's own offline replay, and in ours: `kv_aware`'s mean TTFT, of that of the best of "
        "Dynamo's settings that were tried",
        "{:.2f}",
        "peers_dynamo_replay",
        (bar("kv_aware: TTFT mean"),),
    ),
    *(
        Headline(
            f"Seven replicas with {length} contexts at constant load, `kv_aware` against `round_robin`: TTFT p50 and "
            "p90, answers per second, cost",
            "{:+.1%}, {:+.0%}, {:+.0%}, {:+.0%}",
            "scenarios_seven_replicas",
            tuple(
                bar(f"{length}: kv_aware's {what}") for what in ("TTFT p50", "TTFT p90", "answers per second", "cost")
            ),
        )
        for length in ("8k", "64k")
    ),
    Headline(
        "Mean TTFT of 20-turn conversations with 15 users, `round_robin` and `kv_aware`",
        "{:.2f} s and {:.2f} s",
        "scenarios_twenty_turns",
        tuple(first_cell(name, MEAN) for name in ("round_robin", "kv_aware")),
    ),
    Headline(
        "Mean TTFT of 100,000 requests of 4,000 tokens in and 800 out, `round_robin` and `kv_aware`",
        "{:.2f} s and {:.2f} s",
        "scenarios_r1_100k",
        tuple(first_cell(name, MEAN) for name in ("round_robin", "kv_aware")),
    ),
    Headline(
        "Streams per second on one core, as a share of nginx's in the same run",
        "{:.2f}",
        "overhead",
        (bar(f"{PRODUCT}: streams per s"),),
    ),
    Headline(
        "Requests per second on one core, as a share of nginx's in the same run",
        "{:.3f}",
        "overhead",
        (bar(f"{PRODUCT}: requests per s"),),
    ),
    Headline(
        "With a key, five limits and `prefix_aware`, in the same run: requests per second of SGLang's gateway's, "
        "streams per second of nginx's",
        "{:.2f} and {:.2f}",
        "peers_saturation",
        (bar("requests per s: warmgate, of sglang"), bar("streams per s: warmgate, of nginx")),
    ),
    Headline(
        "The same with bodies of 220 kB: requests per second, of the best other router's",
        "{:.2f}",
        "peers_sizes",
        (bar("requests per s of 220 kB"),),
    ),
    Headline(
        "What it adds to p50 and p99 at 500 requests per second, ms, and SGLang's gateway in the same run",
        "{:.2f} and {:.2f}; {:.2f} and {:.2f}",
        "peers_rates",
        tuple(
            cell("500 requests per second", name, column)
            for name in ("warmgate", "sglang cache_aware")
            for column in ("whole p50", "whole p99")
        ),
    ),
    Headline(
        "5,000 streams at once, an event a second each, on one core: streams that failed, and p99 of what is added to "
        "an event's way",
        "{:.0f}, and {:.1f} ms",
        "many_streams",
        (bar("streams that did not come whole"), bar("p99 of what the gateway adds")),
    ),
    Headline(
        "Memory per open stream with a key and limits, and LiteLLM's in the same run",
        "{:.0f} KiB, and {:.0f} KiB",
        "peers_memory",
        (bar("KiB per open stream"), cell("Resident memory", "litellm", "per stream, KiB")),
    ),
    Headline(
        "Turns of 50 on which real vLLM engines report the cached share that was predicted, within 10 points",
        "{:.0f}",
        "engine",
        (bar("turns of 50"),),
    ),
    Headline(
        "Memory per open stream, and per client that reads nothing of a 64 MiB stream",
        "{:.0f} KiB, and {:,.0f} KiB",
        "streams",
        (bar("resident memory per open stream"), bar("resident memory per slow reader")),
    ),
    Headline(
        "Time to hash and match an 8,192-token prompt over 64 workers with a million held blocks, p50",
        "{:.0f} us (`pygtrie`, match alone: {:,.0f} us)",
        "index",
        (bar("hash and match of an 8,192-token prompt"), cell("What was sent: 64 workers", "match, pygtrie", "p50")),
    ),
    Headline(
        "Processor time to index a block of an engine's event, as a share of Dynamo's index in the same run",
        "{:.2f}",
        "index",
        (bar("told in runs, ns of processor time per block"),),
    ),
    Headline(
        "Match of 272 blocks that a worker has, and bytes per held block, as shares of Dynamo's",
        "{:.2f} and {:.2f}",
        "index",
        (bar("match of 272 blocks that a worker has"), bar("bytes per held block, system prompts")),
    ),
    Headline(
        "A decision from 16,384 token ids over 64 workers, in the worst case",
        "{:.1f} times as fast as Dynamo's",
        "decision",
        (bar("decision from a list of ids"),),
    ),
    Headline(
        "Exact tokens of a turn after 15,000 that were seen, as a share of making them whole",
        "{:.2f} to {:.2f}",
        "tokenizing",
        (bar("a turn as a share of the whole, ChatML"), bar("a turn as a share of the whole, reasoning")),
    ),
    Headline(
        "Bytes of index per held block",
        "{:.1f} (`pygtrie`: {:.0f})",
        "index",
        tuple(
            cell("What was sent: memory", name, "bytes per held block")
            for name in ("radix tree, traced", "pygtrie, traced")
        ),
    ),
    Headline(
        "Growth of resident memory over 200,000 different prompts, after warm-up",
        "{:.1f} MiB",
        "memory",
        (bar("growth of resident memory"),),
    ),
    Headline(
        "Errors and wrong answers that 100 clients saw in ten minutes with a fault a second: kill -9, stop, "
        "reset, drain",
        "{:.0f} and {:.0f} of {:,.0f} answers; {:,.0f} streams went on at another worker",
        "chaos",
        (
            bar("errors that a client saw"),
            bar("wrong answers"),
            cell("Requests", "requests", "faults"),
            bar("streams that went on at another worker"),
        ),
    ),
    Headline(
        "Requests that failed under load while a zone went and came back, Redis was restarted, and all gateways were "
        "replaced",
        "{:.0f}",
        "drill",
        (bar("requests that failed"),),
    ),
    Headline(
        "Two gateways that share a Redis, each request to the next, of the hit rate of one: conversations, coding "
        "agents; seconds until the load of a killed one is gone",
        "{:.2f}, {:.2f}; {:.1f}",
        "replicas",
        (
            bar("tau, prefix_aware: hit rate of two"),
            bar("agentic, prefix_aware: hit rate of two"),
            bar("tau, prefix_aware: seconds until"),
        ),
    ),
    Headline(
        "Prefill apart from decode, prompts of 8,000 tokens, as a share of the same workers whole: p99 of the time per "
        "token, and of the time to the first",
        "{:.2f} and {:.2f}",
        "disaggregation",
        (bar("8000 tokens: TPOT p99"), cell("Divided, as a share of whole", "8000", "TTFT p99")),
    ),
    Headline(
        "Personal data in texts of our own that guardrails find, and how much of what they find is some: recall and "
        "precision; cuts of a stream at which any of it came out",
        "{:.2f} and {:.2f}; {:.0f}",
        "guardrails",
        (
            bar("recall of all kinds of pii"),
            bar("precision of all kinds of pii"),
            bar("cuts at which a stream comes out otherwise"),
        ),
    ),
    Headline(
        "TTFT p99 of a team beside another that floods with 200 clients; the same where requests are served in order",
        "{:.2f} s, and {:.0f} s",
        "fairness",
        (first_cell("fair", "p99 s"), first_cell("in order of arrival", "p99 s")),
    ),
    Headline(
        "Gauges not back at 0 after 10,000 mixed requests with aborts",
        "{:.0f}",
        "memory",
        (bar("gauges of work under way not back at 0"),),
    ),
)
