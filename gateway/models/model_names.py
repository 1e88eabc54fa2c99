"""Resolves a requested name to a configured model: by exact name or alias, else by the longest matching pattern."""

from collections.abc import Iterable

import pygtrie


class ModelNames:
    """Resolves the ``model`` field of a request. Exact names win over patterns, long patterns over short ones."""

    def __init__(self, models: Iterable[tuple[str, Iterable[str]]]) -> None:
        """Each model has its name and its aliases; an alias that ends in ``*`` stands for all names with that
        beginning.

        The settings guarantee that no name or alias is given twice.
        """
        self._exact: dict[str, str] = {}
        self._patterns = pygtrie.CharTrie()
        for name, aliases in models:
            self._exact[name] = name
            for alias in aliases:
                if alias.endswith("*"):
                    self._patterns[alias[:-1]] = name
                else:
                    self._exact[alias] = name

    @property
    def exact(self) -> list[str]:
        """All names and aliases without patterns."""
        return list(self._exact)

    def resolve(self, requested: str) -> str | None:
        """Return the name of the configured model, or None when nothing matches. O(length of *requested*)."""
        exact = self._exact.get(requested)
        if exact is not None:
            return exact
        name: str | None = self._patterns.longest_prefix(requested).get()
        return name
