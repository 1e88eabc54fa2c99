"""Streams that could go on at another worker, by the one that they are on."""

from cache_index import WorkerId
from gateway.backends.backend import Reply
from gateway.errors import HandedOver


class OpenStreams:
    """Of one model, under whichever settings its requests began."""

    def __init__(self) -> None:
        self._replies: dict[WorkerId, set[Reply]] = {}

    def opened(self, worker: WorkerId, reply: Reply) -> None:
        """Whoever opens a stream here closes it here."""
        self._replies.setdefault(worker, set()).add(reply)

    def closed(self, worker: WorkerId, reply: Reply) -> None:
        replies = self._replies.get(worker)
        if replies is not None:
            replies.discard(reply)
            if not replies:
                del self._replies[worker]

    def hand_over(self, worker: WorkerId) -> int:
        """Let the streams on *worker* go on elsewhere; how many those are."""
        replies = tuple(self._replies.get(worker, ()))
        for reply in replies:
            reply.interrupt(HandedOver(f"{worker} is being drained"))
        return len(replies)
