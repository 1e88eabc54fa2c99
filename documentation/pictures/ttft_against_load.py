"""Charts of mean time to first token against load, from benchmarks/results/replay.json."""

from collections.abc import Mapping, Sequence

from documentation.pictures.drawing import Point
from documentation.pictures.line_chart import Axis, LineChart
from documentation.pictures.stored_results import figures

OURS = {"kv_aware": "Warmgate, precise", "prefix_aware": "Warmgate, approximate"}
OTHERS = {
    "policy_b": "late binding with ageing",
    "llm_d": "llm-d",
    "dynamo_1": "Dynamo",
    "sglang_cache_aware": "SGLang cache-aware",
}
"""Labels of the policies in the stored results; benchmarks/policies describes each."""
NOTES = (
    "Recorded traffic in virtual time, 8 simulated GPU workers. Policies of",
    "others follow their descriptions. From benchmarks/results/replay.json.",
)


def chat() -> str:
    lines = figures("replay")["Chat: TTFT against speed"]
    return LineChart(
        "Chats: time to first token against load",
        "Mean time to first token of recorded chats at rising speed. The lines of Warmgate stay lowest.",
        Axis("speed, times as recorded", 0.8, 2.6, (0.8, 1, 1.5, 2, 2.6)),
        Axis("mean time to first token, s", 0.8, 60, (1, 2, 5, 10, 20, 50)),
        _named(lines, OURS),
        _named(lines, OTHERS),
        NOTES,
    ).svg()


def coding_agents() -> str:
    lines = figures("replay")["Coding agents, 600 blocks: TTFT against users"]
    return LineChart(
        "Coding agents: time to first token against users",
        "Mean time to first token of recorded coding agents, whose contexts together exceed the caches.",
        Axis("users at the same time", 48, 144, (48, 64, 80, 96, 120, 144)),
        Axis("mean time to first token, s", 1, 110, (1, 2, 5, 10, 20, 50, 100)),
        _named(lines, OURS),
        _named(lines, OTHERS),
        NOTES,
    ).svg()


def _named(lines: Mapping[str, Sequence[Point]], labels: Mapping[str, str]) -> dict[str, Sequence[Point]]:
    return {label: lines[name] for name, label in labels.items()}
