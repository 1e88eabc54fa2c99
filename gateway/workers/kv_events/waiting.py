"""Messages that arrived too early and wait for the messages before them."""

from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.past import look_of

MAX_MESSAGES = 8_192
MAX_BYTES = 16 * 2**20
"""Maximum total payload size in bytes. A message that does not fit is dropped and will be requested again."""


class WaitingRoom:
    """Store of messages with limited size, with one message per sequence number."""

    def __init__(self, *, max_messages: int = MAX_MESSAGES, max_bytes: int = MAX_BYTES) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._messages: dict[int, BatchMessage] = {}
        self._bytes = 0
        self.turned_away = 0
        """Number of messages that were dropped because they did not fit."""

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, message: BatchMessage) -> bool:
        """Return whether an equal message is already in the store."""
        waiting = self._messages.get(message.seq)
        return waiting is not None and look_of(waiting.payload) == look_of(message.payload)

    @property
    def first(self) -> int:
        """Lowest sequence number in the store, which must not be empty. O(n)."""
        return min(self._messages)

    def add(self, message: BatchMessage) -> bool:
        """Add *message*. Return whether there was enough space. Of two messages with the same number, the newer one is
        kept.
        """
        other = self._messages.get(message.seq)
        if other is not None and not _is_younger(message, other):
            return True
        size = self._bytes + len(message.payload) - (0 if other is None else len(other.payload))
        if size > self._max_bytes or (other is None and len(self._messages) >= self._max_messages):
            self.turned_away += 1
            return False
        self._messages[message.seq] = message
        self._bytes = size
        return True

    def take(self, seq: int) -> BatchMessage | None:
        """Remove and return the message with the sequence number *seq*. If it is missing, return None."""
        message = self._messages.pop(seq, None)
        if message is not None:
            self._bytes -= len(message.payload)
        return message

    def take_through(self, seq: int) -> list[BatchMessage]:
        """Remove all messages with sequence numbers up to *seq* and return them in order. O(n)."""
        due = sorted(waiting for waiting in self._messages if waiting <= seq)
        return [message for message in map(self.take, due) if message is not None]

    def drop_older(self, ts: float) -> int:
        """Drop the messages that were created before the time *ts*. Return the number of dropped messages. O(n)."""
        old = [seq for seq, message in self._messages.items() if message.ts is not None and message.ts < ts]
        for seq in old:
            self.take(seq)
        return len(old)

    def clear(self) -> None:
        self._messages.clear()
        self._bytes = 0


def _is_younger(message: BatchMessage, other: BatchMessage) -> bool:
    return message.ts is not None and (other.ts is None or message.ts > other.ts)
