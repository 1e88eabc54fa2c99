from pathlib import Path

from benchmarks.shipped import Shipped


def test_the_unpacked_wheel_goes_before_the_checkout() -> None:
    """Else the sources in the working directory would be measured under its name."""
    shipped = Shipped(Path("unpacked"))

    assert "-P" in shipped.command
    assert {"PYTHONPATH": "unpacked"} == shipped.environment
