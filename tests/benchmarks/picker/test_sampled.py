import sys
from pathlib import Path

import pytest

from benchmarks.picker.sampled import LOOP, part_of, running


@pytest.mark.parametrize(
    ("place", "part"),
    [
        ("gateway/picker/http2/connection.py", "gateway/picker/http2"),
        ("gateway/picker/stream.py", "gateway/picker"),
        ("gateway/app/serving.py", "gateway"),
        ("routing/fleet.py", "routing"),
        ("tests/picker/rig.py", None),
        ("gateway.py", None),
    ],
)
def test_code_belongs_to_the_first_folder_that_contains_it(place: str, part: str | None) -> None:
    assert part == part_of(f"/checkout/{place}", Path("/checkout"))


def test_code_of_others_belongs_to_no_part() -> None:
    assert None is part_of("/usr/lib/python3/json/decoder.py", Path("/checkout"))


def test_time_outside_the_gateway_is_that_of_the_loop() -> None:
    assert (LOOP, LOOP) == (running(None), running(sys._getframe()))
