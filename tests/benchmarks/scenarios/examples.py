"""Outcomes that are made up, for what comes after a run."""

import dataclasses
from typing import Any

from benchmarks.scenarios.outcome import Outcome

OUTCOME = Outcome(
    requests=70,
    hit=0.2,
    ttft_mean_s=1.0,
    ttft_p50_s=1.0,
    ttft_p90_s=2.0,
    ttft_p99_s=3.0,
    latency_mean_s=4.0,
    latency_p90_s=5.0,
    answers_per_s=10.0,
    output_tokens_per_s=100.0,
    prefill_share=0.5,
    gpu_s=1_000.0,
)


def outcome(**figures: Any) -> Outcome:
    return dataclasses.replace(OUTCOME, **figures)
