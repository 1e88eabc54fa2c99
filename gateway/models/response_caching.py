"""Rules by which complete answers of a model are kept and sent again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResponseCaching:
    """Caching of complete answers of one model."""

    identity: bytes
    """Digest of all settings that can change an answer of the model. Answers under another digest are never sent."""
    needs_request: bool
    """Whether only requests with the header ``x-warmgate-cache`` use the cache. Otherwise, all requests use it."""
