"""Measurements that a test makes up."""

from benchmarks.bench import Measurement
from benchmarks.chat_bodies import Load


def measured(
    target: str, per_s: float, *, load: Load = "requests", round_number: int = 0, cpu: float = 1.0, noise: float = 0.0
) -> Measurement:
    return Measurement(
        target=target,
        load=load,
        round=round_number,
        per_s=per_s,
        p50_ms=1.0,
        p99_ms=2.0,
        target_cpu=cpu,
        stub_cpu=0.5,
        others_on_proxy_core=noise,
        others_on_load_core=0.0,
        errors=0,
    )
