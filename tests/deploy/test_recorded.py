"""What stands in for exporters that cannot run here behaves as they do."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.recorded import RECORDED, exporting, grown

TEXT = """# TYPE a_seconds histogram
a_seconds_bucket{le="+Inf"} 2.0
a_seconds_count 2.0
a_seconds_sum 0.5
# TYPE b gauge
b{c="d"} 7
"""


def test_counts_grow_and_gauges_stay() -> None:
    lines = grown(TEXT, 3).splitlines()

    assert ['a_seconds_bucket{le="+Inf"} 6.0', "a_seconds_count 6.0", "a_seconds_sum 1.5"] == lines[1:4]
    assert 'b{c="d"} 7' == lines[-1]


def test_each_is_served_in_the_format_of_prometheus() -> None:
    """With every series that is written down."""
    with exporting() as places:
        for name, place in places.items():
            with urllib.request.urlopen(f"http://{place}/metrics", timeout=10) as answer:
                reported = answer.read().decode()

            assert [family.name for family in text_string_to_metric_families(RECORDED[name])] == [
                family.name for family in text_string_to_metric_families(reported)
            ]
    assert {"dcgm", "vllm"} == set(RECORDED)
