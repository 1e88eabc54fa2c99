"""Body of a request that reaches the worker while it arrives.

The last part waits until the whole body was checked, so no worker gets the whole body of a request that is refused.
Changes of the body are possible only if they leave the bytes that were passed on unchanged. New members, which the
gateway adds at the front of a JSON object, move to its end.
"""

from hashlib import blake2b
from typing import Final

_SPACE: Final = b" \t\r\n"


class PassedBody:
    """Record of the bytes that were passed on. Their digest is enough to compare them, so they need no memory."""

    __slots__ = ("_digest", "_held", "_size")

    def __init__(self) -> None:
        self._digest = blake2b()
        self._size = 0
        self._held = b""

    def take(self, data: bytes) -> bytes:
        """Return the bytes to pass on now that *data* has arrived, which waits for the part after it."""
        if not data:
            return b""
        ready, self._held = self._held, data
        self._digest.update(ready)
        self._size += len(ready)
        return ready

    def rest(self, body: bytes) -> bytes | None:
        """Return the bytes that complete those that were passed on to the JSON object *body*, or None if there are
        none, because the passed bytes differ.
        """
        text = memoryview(body)
        if blake2b(text[: self._size]).digest() == self._digest.digest():
            return body[self._size :]
        return self._with_members_at_the_end(body, text)

    def _with_members_at_the_end(self, body: bytes, text: memoryview) -> bytes | None:
        """Return the rest of *body* with the members that were added at the front, or None if that is not the change
        between the body of the caller and *body*.
        """
        front = body.find(b"{") + 1
        added = len(body) - self._size - len(self._held)
        members = body[front : front + added] if added > 0 else b""
        passed = blake2b(text[:front])
        passed.update(text[front + added : self._size + added])
        held = self._held.rstrip(_SPACE)
        is_added = (
            members.endswith(b",")
            and held.endswith(b"}")
            and passed.digest() == self._digest.digest()
            and text[self._size + added :] == self._held
        )
        return held[:-1] + b"," + members[:-1] + b"}" if is_added else None
