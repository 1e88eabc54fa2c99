"""First words of hot prefixes, for prefixes that only teams with recorded prompts use.

Words are the only text of prompts that the observation of caches keeps. Two rules protect them:

1. The words of a prefix are kept and shown only if prompts are recorded for every team that used the prefix.
2. The words come from the text that all these teams sent, which is the text of the first hashed blocks.
"""

from collections.abc import Callable
from typing import Final

from cache_index.prefix import HASH_BYTES, Prefix
from gateway.protocol.prompt import first_words
from gateway.telemetry.caches.hot_prefixes import DEPTHS, MAX_COUNTERS, MAX_TEAMS

MAX_BYTES: Final = 80
"""Maximum length in bytes of the words of a prefix."""
_END: Final = DEPTHS[0] * HASH_BYTES
"""Length of the hashes of the first blocks, which all prefixes with the same words have in common."""


class _Use:
    """Teams that used the first blocks of a prefix, and the words if they can be shown."""

    __slots__ = ("teams", "words")

    def __init__(self) -> None:
        self.teams: tuple[str | None, ...] = ()
        """Teams, None for callers without a team. More than `MAX_TEAMS` teams mean that the words are never shown."""
        self.words = ""


class PrefixWords:
    """Words of prefixes, by the hash of their first blocks. At most *max_prefixes* are kept, about 500 bytes each.

    *is_recorded* returns whether prompts of a team are recorded. *block_bytes* is the size of a block of text.
    """

    def __init__(
        self, is_recorded: Callable[[str | None], bool], *, block_bytes: int, max_prefixes: int = MAX_COUNTERS
    ) -> None:
        self._is_recorded = is_recorded
        self._text_bytes = DEPTHS[0] * block_bytes
        self._max_prefixes = max_prefixes
        self._uses: dict[bytes, _Use] = {}

    def __len__(self) -> int:
        return len(self._uses)

    def clear(self) -> None:
        """Forget all words, because the key of the hashes changes."""
        self._uses.clear()

    def learn(self, prefix: Prefix, team: str | None, beginning: bytes) -> None:
        """Note that *team* used *prefix*. *beginning* is the recorded beginning of the prompt, or empty if the prompt
        was not recorded.
        """
        key = prefix.hashes[_END - HASH_BYTES : _END]
        if not key:
            return
        use = self._uses.pop(key, None)
        if use is None:
            use = _Use()
            if len(self._uses) >= self._max_prefixes:
                del self._uses[next(iter(self._uses))]  # the one whose last use is longest ago
        self._uses[key] = use
        if team not in use.teams and len(use.teams) <= MAX_TEAMS:
            use.teams = (*use.teams, team)
        if not self._may_show(use):
            use.words = ""
        elif beginning and not use.words:
            use.words = first_words(beginning[: self._text_bytes], max_bytes=MAX_BYTES)

    def find(self, prefix: Prefix) -> str | None:
        """Return the words of *prefix*, or None if they are unknown or if they must not be shown."""
        use = self._uses.get(prefix.hashes[_END - HASH_BYTES : _END])
        if use is None or not use.words:
            return None
        if not self._may_show(use):
            use.words = ""
            return None
        return use.words

    def _may_show(self, use: _Use) -> bool:
        return len(use.teams) <= MAX_TEAMS and all(map(self._is_recorded, use.teams))
