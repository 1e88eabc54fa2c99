"""Open streams that another worker would be able to continue, by their current worker."""

from cache_index import WorkerId
from gateway.backends.backend import Reply
from gateway.protocol.errors import HandedOver


class OpenStreams:
    """Open streams of one model, including those that began with former settings."""

    def __init__(self) -> None:
        self._replies: dict[WorkerId, set[Reply]] = {}

    def opened(self, worker: WorkerId, reply: Reply) -> None:
        """Add an open stream. The caller must call `closed` when the stream ends."""
        self._replies.setdefault(worker, set()).add(reply)

    def closed(self, worker: WorkerId, reply: Reply) -> None:
        replies = self._replies.get(worker)
        if replies is not None:
            replies.discard(reply)
            if not replies:
                del self._replies[worker]

    def hand_over(self, worker: WorkerId) -> int:
        """Move the streams of *worker* to other workers, and return their number."""
        replies = tuple(self._replies.get(worker, ()))
        for reply in replies:
            reply.interrupt(HandedOver(f"{worker} is being drained"))
        return len(replies)
