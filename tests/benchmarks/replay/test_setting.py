from pathlib import Path
from typing import Any

import pytest

from benchmarks.replay.setting import SETTINGS, Setting


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
        ({"event_lag_s": -0.5}, r"event_lag_s must not be negative, not -0\.5"),
        ({"event_loss": 1.0}, r"event_loss must be at least 0 and below 1, not 1\.0"),
        ({"event_loss": -0.1}, r"event_loss must be at least 0 and below 1, not -0\.1"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        Setting(**{"title": "", "trace": Path(), "workers": 1, "blocks": 1, **change})


def test_the_settings_for_the_record_are_of_shipped_traces() -> None:
    """Four, each with a title of its own."""
    assert 4 == len({setting.title for setting in SETTINGS})
    assert [] == [setting for setting in SETTINGS if not setting.trace.is_file()]
