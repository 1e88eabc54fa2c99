"""Tool names as Bedrock takes them, and the way back.

A name there is at most 64 of ``A-Z a-z 0-9 _ -``; OpenAI's clients send dots, slashes, spaces and whole sentences, and
a history may hold names that a model made up. Every name gets one of its own, everywhere the same: in the
specifications, in the choice, in the history; in an answer it is turned back.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable

_LONGEST = 64  # ToolName in botocore's service model of bedrock-runtime, as is the alphabet
_STRANGE = re.compile(r"[^a-zA-Z0-9_-]")


class ToolNames:
    """Mapping between names of the caller and names on the wire. Never changes."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """*names* as they come in the caller's body; repetitions are no matter. O(names)."""
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
        """*name* as Bedrock gets it.

        Raises:
            KeyError: it was not given at the start.
        """
        return self._sent[name]

    def original(self, sent: str) -> str:
        """Return the caller's name of the tool that the model calls *sent*; an unknown name stays as it is."""
        return self._original.get(sent, sent)

    def free(self, wish: str) -> str:
        """Return a free name on the wire: *wish*, or one that begins so."""
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
    """Bedrock takes *name* as it is."""
    return 0 < len(name) <= _LONGEST and not _STRANGE.search(name)
