"""Views of the workers' caches for the admin API."""

from dataclasses import dataclass

from gateway.telemetry.caches.cache_map import CacheMaps
from gateway.telemetry.caches.index_truth import IndexTruths


@dataclass(frozen=True, slots=True)
class CacheViews:
    """Readers of the observed use of caches."""

    maps: CacheMaps
    truths: IndexTruths
