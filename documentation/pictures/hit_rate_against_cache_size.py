"""Chart of hit rates against the size of a worker's cache, from benchmarks/results/cache_size.json."""

from collections.abc import Mapping, Sequence

from documentation.pictures.drawing import Point
from documentation.pictures.line_chart import Axis, LineChart
from documentation.pictures.stored_results import figures

OURS = {"kv_aware": "Warmgate, precise", "prefix_aware": "Warmgate, approximate"}
OTHERS = {
    "llm_d": "llm-d",
    "sglang_cache_aware": "SGLang cache-aware",
    "dynamo_1": "Dynamo",
    "round_robin": "round robin",
}


def hit_rate_against_cache_size() -> str:
    lines = figures("cache_size")["hit rate"]
    return LineChart(
        "Coding agents: hit rate against cache size",
        "Share of prompt tokens that come from a cache, by the size of each worker's cache.",
        Axis("cache of a worker, thousand tokens", 300, 1350, (300, 500, 800, 1300)),
        Axis("cached share of all prompt tokens", 0, 100, (0, 20, 40, 60, 80, 100), is_logarithmic=False, unit="%"),
        _percent(lines, OURS),
        _percent(lines, OTHERS),
        (
            "Recorded coding agents in virtual time, 4 simulated GPU workers, 32",
            "users. Policies of others follow their descriptions. From",
            "benchmarks/results/cache_size.json.",
        ),
    ).svg()


def _percent(lines: Mapping[str, Sequence[Point]], labels: Mapping[str, str]) -> dict[str, Sequence[Point]]:
    return {label: [(tokens / 1000, 100 * hit) for tokens, hit in lines[name]] for name, label in labels.items()}
