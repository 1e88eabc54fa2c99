"""Lookup of a configured model by a requested name: exact names first, then the longest matching pattern."""

from collections.abc import Iterable

import pygtrie


class ModelNames:
    """Lookup of models by the ``model`` field of a request. Exact names win over patterns, and long patterns over short
    ones.
    """

    def __init__(self, models: Iterable[tuple[str, Iterable[str]]]) -> None:
        """Create the lookup. *models* has the name and the aliases of each model. An alias that ends in ``*`` is a
        prefix pattern.

        No name or alias occurs twice: the settings are checked for that.
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
        """All names and aliases of models, but no patterns."""
        return list(self._exact)

    def resolve(self, requested: str) -> str | None:
        """Return the name of the configured model, or None if no name, alias or pattern matches. O(length of
        *requested*).
        """
        exact = self._exact.get(requested)
        if exact is not None:
            return exact
        name: str | None = self._patterns.longest_prefix(requested).get()
        return name
