"""Endpoints are named with their port, or by an address that means all its ports."""

import pytest

from gateway.picker.subset import Subset


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("10.0.0.1:3000", ["10.0.0.1:3000"]),
        ("10.0.0.1", ["10.0.0.1:3000", "10.0.0.1:3002"]),
        ("[fd00::1]:3000", ["[fd00::1]:3000"]),
        ("[fd00::1]", ["[fd00::1]:3000"]),
        ("fd00::1", ["[fd00::1]:3000"]),
        ("256.256.256.256", []),
        ("10.0.0.1:", []),
        ("3000", []),
    ],
)
def test_a_name_stands_for_endpoints(name: str, accepted: list[str]) -> None:
    subset = Subset(frozenset({name}))

    endpoints = ["10.0.0.1:3000", "10.0.0.1:3002", "10.0.0.11:3000", "[fd00::1]:3000"]
    assert accepted == [each for each in endpoints if subset.accepts(each)]


def test_an_endpoint_must_be_in_both_subsets() -> None:
    subset = Subset(frozenset({"10.0.0.1"}), within=Subset(frozenset({"10.0.0.1:3000", "10.0.0.2:3000"})))

    endpoints = ["10.0.0.1:3000", "10.0.0.1:3002", "10.0.0.2:3000"]
    assert ["10.0.0.1:3000"] == [each for each in endpoints if subset.accepts(each)]
    assert not Subset(frozenset()).accepts("10.0.0.1:3000")
