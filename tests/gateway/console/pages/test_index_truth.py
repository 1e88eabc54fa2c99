"""Facts about the page with predicted and reported hits."""

from gateway.console.pages.index_truth import points
from gateway.protocol.usage import Usage
from tests.fakes.intake import some_counters
from tests.gateway.api.admin_v1.test_cache_map import a_gateway
from tests.gateway.console.consoled import consoled
from tests.gateway.telemetry.caches.examples import Observed, Streams
from tests.routing.examples import A, a_request


async def test_a_worker_has_a_chart_and_the_state_of_its_stream() -> None:
    observed = Observed(streams=Streams({A: some_counters(trust="stale", doubt="lost", lag_s=0.25, gaps=3)}))
    request = a_request("abcdefghijklmnop")
    observed.activity.observe([observed.answered(request, usage=Usage(256, 1, 128), hit_tokens=192.0)])
    observed.activity.end_minute()
    async with consoled(gateway=a_gateway(observed)) as site:
        text = (await (await site.logged_in("vi")).get("/console/index-truth")).text

    assert 'aria-label="192 tokens predicted, 128 reported, at most 192 per minute"' in text
    assert '<span class="state bad">stale</span> <span class="muted">lost</span>' in text
    assert '<td class="number">250 ms</td>' in text
    assert '<td class="number">66.7 %</td>' in text
    assert "3 gaps, 0 lost batches, 0 rebuilds" in text
    assert 2 == text.count("no requests with a reported hit")


def test_a_line_ends_at_the_right_and_its_highest_point_at_the_top() -> None:
    assert "290.0,53.0 295.0,28.0 300.0,3.0" == points([0, 50, 100], 100)
    assert "300.0,53.0" == points([0], 1)
