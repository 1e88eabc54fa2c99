"""Mapping of the client's tool names to names that Bedrock accepts, and back.

Bedrock allows at most 64 characters from ``A-Z a-z 0-9 _ -``. Clients send dots, slashes, spaces and whole sentences,
and the message history may contain names that a model invented. Each name is replaced by a unique valid name in tool
definitions, tool choice and history. Responses are mapped back.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable

_LONGEST = 64  # ToolName in botocore's service model of bedrock-runtime, as is the alphabet
_STRANGE = re.compile(r"[^a-zA-Z0-9_-]")


class ToolNames:
    """Immutable mapping between the client's tool names and the names sent to Bedrock."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Create a mapping for *names* from the client's request, which can contain duplicates. O(names)."""
        asked = list(dict.fromkeys(names))
        # Those that are fine stay what they are: none that is made may take their place.
        self._sent = {name: name for name in asked if is_tool_name(name)}
        self._original = dict(self._sent)
        for name in asked:
            if name not in self._sent:
                sent = self._free_name(name)
                self._sent[name] = sent
                self._original[sent] = name

    def sent(self, name: str) -> str:
        """Return the name that Bedrock receives for the tool *name*.

        Raises:
            KeyError: if *name* was not given to the constructor.
        """
        return self._sent[name]

    def original(self, sent: str) -> str:
        """Return the client's name for the tool that the model calls *sent*. An unknown name is returned unchanged."""
        return self._original.get(sent, sent)

    def free(self, wish: str) -> str:
        """Return an unused tool name that Bedrock accepts: *wish*, or a name that begins with *wish*."""
        return self._free_name(wish)

    def _free_name(self, name: str) -> str:
        plain = _STRANGE.sub("_", name)
        if is_tool_name(plain) and plain not in self._original:
            return plain
        salts = itertools.count()
        while True:
            digest = hashlib.sha256(f"{next(salts)}:{name}".encode()).hexdigest()[:8]
            made = f"{plain[: _LONGEST - 9]}_{digest}"
            if made not in self._original:
                return made


def is_tool_name(name: str) -> bool:
    """Return whether Bedrock accepts *name* as a tool name."""
    return 0 < len(name) <= _LONGEST and not _STRANGE.search(name)
