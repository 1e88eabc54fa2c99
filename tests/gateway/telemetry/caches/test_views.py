from gateway.telemetry.caches.cache_map import CacheMaps
from gateway.telemetry.caches.index_truth import IndexTruths
from gateway.telemetry.caches.views import CacheViews
from tests.gateway.telemetry.caches.examples import Observed
from tests.routing.examples import BLOCK_BYTES


def test_both_views_read_the_same_activity() -> None:
    observed = Observed()
    maps = CacheMaps(observed.activity, observed.index, observed.confirmed, BLOCK_BYTES, observed.clock)
    views = CacheViews(maps, IndexTruths(observed.activity.history, observed.streams))

    assert views.maps.activity.history is views.truths.history
