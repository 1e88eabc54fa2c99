"""A worker that an administrator added to a model by the API, as a store keeps it. It has no secret."""

import msgspec

from gateway.protocol.worker_address import endpoint

MAX_WORKERS = 1000
"""Workers of one store."""
MAX_MODEL_WORKERS = 256
"""Workers of one model."""


class AddedWorker(msgspec.Struct, frozen=True, omit_defaults=True):
    model: str
    """Configured name of the model that it serves."""
    url: str
    id: str
    created_at: float = 0.0
    """Seconds since 1970."""

    @property
    def name(self) -> str:
        """Name of its row: a worker has its id within a model."""
        return name_of(self.model, self.id)

    @property
    def address(self) -> str:
        """Canonical form of its URL; the URL itself if it is invalid."""
        try:
            return endpoint(self.url)
        except ValueError:
            return self.url


def name_of(model: str, worker_id: str) -> str:
    """Return the name of the row of the worker *worker_id*, which has no space in it, of *model*."""
    return f"{worker_id} {model}"
