"""All pages and actions of the console. The navigation has the order of the pages here."""

from typing import Final

from gateway.console.page import Action, Download, Page
from gateway.console.pages import (
    audit,
    batches,
    cache_map,
    explain,
    index_truth,
    keys,
    models,
    overview,
    requests,
    teams,
    what_if,
)

PAGES: Final[tuple[Page, ...]] = (
    *overview.PAGES,
    *requests.PAGES,
    *batches.PAGES,
    *models.PAGES,
    *cache_map.PAGES,
    *index_truth.PAGES,
    *explain.PAGES,
    *what_if.PAGES,
    *teams.PAGES,
    *keys.PAGES,
    *audit.PAGES,
)
DOWNLOADS: Final[tuple[Download, ...]] = (*teams.DOWNLOADS,)
ACTIONS: Final[tuple[Action, ...]] = (
    *explain.ACTIONS,
    *what_if.ACTIONS,
    *models.ACTIONS,
    *batches.ACTIONS,
    *teams.ACTIONS,
    *keys.ACTIONS,
)
SENDING: Final[tuple[Action, ...]] = explain.SENDING
"""Actions that send completions."""
