"""The index of the prefixes that each worker holds. Pure: no I/O, no clock, no logging; imports nothing of ours."""

from cache_index.index import CacheIndex, WorkerId
from cache_index.prefix import Hasher, Prefix
from cache_index.radix import RadixTree

__all__ = ["CacheIndex", "Hasher", "Prefix", "RadixTree", "WorkerId"]
