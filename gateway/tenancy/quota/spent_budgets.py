"""Budgets that refused requests since they were read last."""

from typing import Final

MAX_NOTES: Final = 4096
"""Maximum number of budgets to remember, with at most about 200 bytes each. Further refusals are not remembered until
the budgets are read. The next refused request is remembered then.
"""


class SpentBudgets:
    """Ids and periods of the budgets that refused requests, by team. To note a refusal takes no I/O."""

    def __init__(self) -> None:
        self._notes: dict[str, set[tuple[str, str]]] = {}
        self._size = 0

    def note(self, team: str, limit: str, period: str) -> None:
        """Record that the budget with the id *limit* of *team* refused a request in *period*."""
        notes = self._notes.setdefault(team, set()) if self._size < MAX_NOTES else self._notes.get(team)
        if notes is not None and (limit, period) not in notes and self._size < MAX_NOTES:
            notes.add((limit, period))
            self._size += 1

    def take(self, team: str) -> set[tuple[str, str]]:
        """Return the ids and periods of the budgets of *team*, and forget them."""
        notes = self._notes.pop(team, set())
        self._size -= len(notes)
        return notes
