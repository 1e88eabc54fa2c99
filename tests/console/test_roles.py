"""Admin keys with fewer permissions than an action or a page needs."""

from collections.abc import Callable

import pytest

from gateway.console.all_pages import ACTIONS
from tests.console.people import client, named, post
from tests.console.processes import ROLES, Running

RANKS = ("viewer", "operator", "owner")
ESCALATIONS = [
    (action.path, admin)
    for action in ACTIONS
    for admin in ("vera", "otto")
    if RANKS.index(ROLES[admin]) < RANKS.index(action.role)
]
Token = Callable[[str], str]


@pytest.mark.parametrize(("path", "admin"), ESCALATIONS)
def test_an_action_needs_its_role(path: str, admin: str, served: Running, session: Token) -> None:
    """A form that the page did not offer is refused, and nothing is recorded as a change."""
    token = session(admin)  # a login is recorded, too
    before = served.admin("GET", "/audit", limit=1)["data"]
    with client(served, token) as http:
        response = post(http, named(path), name="x", team="blue", worker="worker-1", model="tiny")

    assert 403 == response.status_code
    assert before == served.admin("GET", "/audit", limit=1)["data"]


@pytest.mark.parametrize("admin", ["vera", "otto", "olga"])
def test_every_role_reads_every_page(admin: str, busy: Running, session: Token, addresses: dict[str, str]) -> None:
    """A page that a role may read does not fail because of a part that it may not read."""
    with client(busy, session(admin)) as http:
        assert {200} == {http.get(address).status_code for address in addresses.values()}


@pytest.mark.parametrize("admin", ["vera", "otto"])
def test_pages_offer_no_action_that_the_role_may_not_use(
    admin: str, busy: Running, session: Token, addresses: dict[str, str]
) -> None:
    """A viewer sees no form for a change."""
    rank = RANKS.index(ROLES[admin])
    denied = [action.path for action in ACTIONS if RANKS.index(action.role) > rank]
    with client(busy, session(admin)) as http:
        texts = [http.get(address).text for address in addresses.values()]

    assert [] == [path for path in denied if any(f'action="{path}"' in text for text in texts)]
