"""Worker that an administrator added to a model with the admin API, in its stored form. It contains no secret."""

import msgspec

from gateway.protocol.worker_address import endpoint

MAX_WORKERS = 1000
"""Maximum number of added workers in a store."""
MAX_MODEL_WORKERS = 256
"""Maximum number of added workers of a model."""


class AddedWorker(msgspec.Struct, frozen=True, omit_defaults=True):
    model: str
    """Configured name of the model that the worker serves."""
    url: str
    id: str
    created_at: float = 0.0
    """Time when the worker was added, in seconds since 1970."""

    @property
    def name(self) -> str:
        """Name of the worker's row in the store. Worker ids are unique within a model."""
        return name_of(self.model, self.id)

    @property
    def address(self) -> str:
        """Canonical form of the worker's URL, or the URL itself if it is invalid."""
        try:
            return endpoint(self.url)
        except ValueError:
            return self.url


def name_of(model: str, worker_id: str) -> str:
    """Return the row name for the worker *worker_id* of *model*. The id must not contain a space."""
    return f"{worker_id} {model}"
