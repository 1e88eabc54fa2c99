import pytest

from benchmarks.peers.entrants import NGINX, OURS, ROUND_ROBIN, SGLANG
from benchmarks.peers.scenarios.saturation import REQUESTS, STREAMS, tell
from tests.benchmarks.measurements import measured
from tests.benchmarks.peers.scenarios.made_up import a_report


@pytest.mark.parametrize(
    ("requests", "streams", "is_met"), [(120, 560, True), (119, 560, False), (120, 559, False), (120, 499, False)]
)
def test_the_bars_are_sglangs_requests_and_the_streams_of_nginx_and_of_the_best_router(
    requests: float, streams: float, is_met: bool
) -> None:
    report = a_report()
    of_requests = {NGINX: 600.0, OURS: requests, SGLANG: 100.0, ROUND_ROBIN: 160.0}
    of_streams = {NGINX: 400.0, OURS: streams, SGLANG: 200.0, ROUND_ROBIN: 500.0}
    tell(
        report,
        {
            REQUESTS: [measured(name, per_s) for name, per_s in of_requests.items()],
            STREAMS: [measured(name, per_s, load="streams") for name, per_s in of_streams.items()],
        },
    )

    assert is_met == report.is_met
    assert 5 == len(report.bars)
    assert 4 == len(report.tables)
    assert {"Requests", "Streams of 100 events"} == set(report.figures["measurements"])
    assert [{OURS: [requests / 600, streams / 400], SGLANG: [1 / 6, 0.5], ROUND_ROBIN: [160 / 600, 1.25]}] == [
        chart.series for chart in report.charts
    ]
