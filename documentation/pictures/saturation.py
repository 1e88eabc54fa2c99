"""Charts of requests and streams per second on one core, from benchmarks/results/peers_saturation.json."""

from documentation.pictures.bar_chart import BarChart, Row
from documentation.pictures.stored_results import Medians, medians

LABELS = {
    "nginx": "nginx, no routing",
    "warmgate": "Warmgate",
    "vllm-router round_robin": "vllm-router, RR",
    "sglang cache_aware": "SGLang gateway",
    "smg cache_aware": "SMG",
    "vllm-router cache_aware": "vllm-router",
    "litellm": "LiteLLM",
}
"""Labels of the measured programs. Round robin (RR) is the only router that ignores prompts."""
NOTES = (
    "Median of the rounds. Warmgate checks a key and five limits; the",
    "others have none. From benchmarks/results/peers_saturation.json.",
)


def requests() -> str:
    table = medians("peers_saturation", "Requests: median (lowest – highest) of the rounds", "per s")
    return BarChart(
        "Short requests on one core",
        "Requests per second on one core for each router. nginx is fastest.",
        "requests per second",
        _rows(table),
        NOTES,
    ).svg()


def streams() -> str:
    table = medians("peers_saturation", "Streams of 100 events: median (lowest – highest) of the rounds", "per s")
    return BarChart(
        "Streams of 100 events on one core",
        "Streams per second on one core for each router. Warmgate is fastest.",
        "streams per second",
        _rows(table),
        NOTES,
    ).svg()


def _rows(rates: Medians) -> list[Row]:
    rows = [Row(label, rates[name], is_ours=name == "warmgate") for name, label in LABELS.items()]
    return sorted(rows, key=lambda row: -row.value)
