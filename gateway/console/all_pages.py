"""All pages and actions of the console. The navigation has the order of the pages here."""

from typing import Final

from gateway.console.page import Action, Page
from gateway.console.pages import overview

PAGES: Final[tuple[Page, ...]] = (*overview.PAGES,)
ACTIONS: Final[tuple[Action, ...]] = ()
