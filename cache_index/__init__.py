"""Index of the prompt prefixes in each worker's KV cache. The package does no I/O, reads no clock and logs nothing. It
imports no other package of the project.
"""

from cache_index.index import CacheIndex, WorkerId
from cache_index.prefix import Hasher, Prefix
from cache_index.radix import RadixTree

__all__ = ["CacheIndex", "Hasher", "Prefix", "RadixTree", "WorkerId"]
