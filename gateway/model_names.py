"""Which configured model a requested name means: an exact name or alias, else the longest matching prefix pattern."""

from collections.abc import Iterable

import pygtrie


class ModelNames:
    """Resolves the ``model`` field of a request. Exact names win over patterns, long patterns over short ones."""

    def __init__(self, models: Iterable[tuple[str, Iterable[str]]]) -> None:
        """Take each model's name with its aliases; an alias that ends in ``*`` stands for all names that begin so.

        The settings see to it that no name or alias is given twice.
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
        """Every name and alias that is no pattern."""
        return list(self._exact)

    def resolve(self, requested: str) -> str | None:
        """The name of the configured model, or None when nothing matches. O(length of *requested*)."""
        exact = self._exact.get(requested)
        if exact is not None:
            return exact
        name: str | None = self._patterns.longest_prefix(requested).get()
        return name
