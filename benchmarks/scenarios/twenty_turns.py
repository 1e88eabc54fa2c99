"""Conversations of 20 turns with 15 users at a time, as multi-round question answering is measured elsewhere."""

import dataclasses

from benchmarks.report import Report
from benchmarks.scenarios.conversations import Conversations
from benchmarks.scenarios.tables import costs, sensitivity, times
from benchmarks.scenarios.trial import Bench, Case, Fleet, Users

USERS, TURNS, REPLICAS = 15, 20, 4
FLEET = Fleet(REPLICAS)
THINK_S = 10.0
CONVERSATIONS = Conversations(
    sessions=10 * USERS,
    turns=(TURNS, TURNS),
    system_tokens=1_000,
    # The user's own history, which the first prompt brings along.
    opening_tokens=(10_000, 30_000),
    question_tokens=(20, 180),
    answer_tokens=(50, 150),
    think_s=THINK_S,
)
LOAD = Users(CONVERSATIONS, USERS)
TITLE = f"{USERS} users, {TURNS} turns, {REPLICAS} replicas"
FIGURES = {"ttft_mean_s": "TTFT mean", "ttft_p50_s": "TTFT p50", "ttft_p90_s": "TTFT p90"}


def record(bench: Bench, report: Report, usd_per_hour: float) -> None:
    """Tables and sensitivities, into *report*."""
    (found,) = bench.outcomes([Case(TITLE, LOAD, FLEET)])
    report.tables += [times(TITLE, found), costs(f"{TITLE}: cost", found, usd_per_hour)]
    report.figures[TITLE] = found
    _record_knobs(bench.with_one_seed(), report)
    report.notes += [
        f"A system prompt of {CONVERSATIONS.system_tokens:,} tokens that all share, a history of "
        f"{CONVERSATIONS.opening_tokens[0]:,} to {CONVERSATIONS.opening_tokens[1]:,} tokens of each user's own, "
        f"questions of {CONVERSATIONS.question_tokens[0]} to {CONVERSATIONS.question_tokens[1]} tokens, answers of "
        f"{CONVERSATIONS.answer_tokens[0]} to {CONVERSATIONS.answer_tokens[1]}, and {THINK_S:g} s in the mean "
        "between an answer and the next question. A user who is through begins with another history.",
        "Published for such conversations: TTFT 2.2 to 12 times as fast, the setting otherwise unknown.",
        "A user waits for the answer before the next question, so throughput follows the time of answers only.",
    ]


def _record_knobs(bench: Bench, report: Report) -> None:
    thoughts = {
        f"{think_s:g} s": Users(dataclasses.replace(CONVERSATIONS, think_s=think_s), USERS) for think_s in (1, 3, 30)
    }
    crowds = {
        str(users): Users(dataclasses.replace(CONVERSATIONS, sessions=10 * users), users) for users in (5, 30, 45)
    }
    for title, across, loads in (
        (f"{TITLE}: time between answer and question", "mean time", thoughts),
        (f"{TURNS} turns, {REPLICAS} replicas: users", "users", crowds),
    ):
        cases = [Case(name, load, FLEET) for name, load in loads.items()]
        found = dict(zip(loads, bench.outcomes(cases), strict=True))
        report.tables.append(sensitivity(title, across, found, FIGURES))
        report.figures[title] = found
