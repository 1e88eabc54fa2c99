from pathlib import Path
from typing import Any

import pytest

from replay.setting import Setting


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"workers": 0}, "workers must be above 0, not 0"),
        ({"blocks": -1}, "blocks must be above 0, not -1"),
        ({"speed": 0.0}, r"speed must be above 0, not 0\.0"),
        ({"speed": float("nan")}, "speed must be above 0, not nan"),
        ({"poisson_per_s": 0.0}, r"poisson_per_s must be above 0, not 0\.0"),
        ({"users": 0}, "users must be above 0, not 0"),
        ({"limit": 0}, "limit must be above 0, not 0"),
        ({"rate_error": 0.0}, r"rate_error must be above 0, not 0\.0"),
        ({"skip": -1}, "skip must not be negative, not -1"),
        ({"worker_speeds": (1.0, 0.0)}, r"worker_speeds must be above 0, not 0\.0"),
        ({"event_lag_s": -0.5}, r"event_lag_s must not be negative, not -0\.5"),
        ({"host_blocks": -1}, "host_blocks must not be negative, not -1"),
        ({"load_tokens_per_s": 0.0}, r"load_tokens_per_s must be above 0, not 0\.0"),
        ({"load_price": 0.0}, r"load_price must be above 0, not 0\.0"),
        ({"event_loss": 1.0}, r"event_loss must be at least 0 and below 1, not 1\.0"),
        ({"event_loss": -0.1}, r"event_loss must be at least 0 and below 1, not -0\.1"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        Setting(**{"title": "", "trace": Path(), "workers": 1, "blocks": 1, **change})


def test_speeds_are_given_to_the_workers_in_turn() -> None:
    """Two speeds for three workers: the third has the first one's."""
    setting = Setting("", Path(), 3, 1, prefill_tokens_per_s=100.0, worker_speeds=(4.0, 1.0))

    assert [4.0, 1.0, 4.0] == [setting.worker_speed(worker) for worker in range(3)]
    assert 300.0 == setting.mean_tokens_per_s


def test_workers_are_equally_fast_unless_speeds_are_given() -> None:
    setting = Setting("", Path(), 3, 1, prefill_tokens_per_s=100.0)

    assert [1.0, 1.0, 1.0] == [setting.worker_speed(worker) for worker in range(3)]
    assert 100.0 == setting.mean_tokens_per_s
