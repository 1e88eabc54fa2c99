"""Reports of addresses on their workers."""

from dataclasses import replace

from gateway.workers.shared_address.address_report import AddressReport, Instance


def test_reports_are_equal_if_nothing_changed() -> None:
    """Only another report makes the models be expanded again."""
    report = AddressReport(instances=(Instance("7", "10.0.0.5"),))

    assert report == replace(report)
    assert report != AddressReport(instances=(Instance("7", "10.0.0.6"),))
    assert AddressReport() == AddressReport(ranks=1)
