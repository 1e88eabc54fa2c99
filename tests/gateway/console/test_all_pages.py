"""Facts about the list of all pages."""

from gateway.console.all_pages import ACTIONS, PAGES


def test_the_overview_comes_first() -> None:
    assert "/console" == PAGES[0].path


def test_each_page_belongs_to_one_in_the_navigation() -> None:
    listed = {page.path for page in PAGES if page.in_navigation}

    assert set() == {page.section or page.path for page in PAGES} - listed


def test_each_action_returns_to_a_page() -> None:
    assert set() == {action.back for action in ACTIONS} - {page.path for page in PAGES}
