"""Chart of the gain against the share of a common prefix, from benchmarks/results/common_prefix.json."""

from documentation.pictures.line_chart import Axis, LineChart
from documentation.pictures.stored_results import figures


def will_it_help_me() -> str:
    gains = figures("common_prefix")["gains"]
    lines = {
        f"{int(prefixes):,} shared prefixes": [(100 * share, gain) for share, gain in line]
        for prefixes, line in gains.items()
    }
    return LineChart(
        "Gain against the share of a common prefix",
        "How many times shorter the mean time to first token is than with round robin, by the share of a prompt that "
        "other requests share, for three numbers of prefixes.",
        Axis("shared part of each prompt", 0, 87.5, (0, 25, 50, 75), is_logarithmic=False, unit="%"),
        Axis("mean time to first token: times shorter than round robin", 0.8, 5, (1, 1.5, 2, 3, 5)),
        lines,
        {},
        (
            "Prompts of 4,096 tokens in virtual time, 4 simulated GPU workers that",
            "hold 307,328 tokens each. From benchmarks/results/common_prefix.json.",
        ),
    ).svg()
