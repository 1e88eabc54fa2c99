"""A viewer who is limited to one team attempts to read what belongs to another."""

from collections.abc import Iterator
from html import unescape

import httpx
import pytest

from tests.console.batches import new_batch
from tests.console.people import client, new_session, read
from tests.console.processes import Running, admin_keys_variable, demo

OTHER = "otherteam"
KEY = "otherteam-key"


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    """A demo with the team of the viewer and another team."""
    with demo(workers=1, environ=admin_keys_variable("olga", "timo")) as running:
        for team in ("blue", OTHER):
            running.admin("POST", "/teams", {"name": team})
        running.new_key("blue")
        yield running


@pytest.fixture(scope="module")
def secret(shared: Running) -> str:
    """The secret of a key of the other team."""
    return str(shared.admin("POST", "/keys", {"team": OTHER, "id": KEY})["secret"])


@pytest.fixture(scope="module")
def batch_id(shared: Running, secret: str) -> str:
    """The id of a batch of the other team."""
    return new_batch(shared.url, secret, metadata={"for": OTHER})


@pytest.fixture(scope="module")
def request_id(shared: Running, secret: str) -> str:
    """The id of a request of the other team."""
    body = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]}
    headers = {"authorization": f"Bearer {secret}"}
    answer = httpx.post(f"{shared.url}/v1/chat/completions", json=body, headers=headers, timeout=60)
    assert answer.is_success
    return answer.headers["x-request-id"]


@pytest.fixture(scope="module")
def token(shared: Running) -> str:
    return new_session(shared, "timo")


@pytest.mark.parametrize(
    "address",
    [
        f"/console/teams/{OTHER}",
        f"/console/teams/{OTHER}/usage.csv",
        f"/console/teams/blue/../{OTHER}",
        f"/console/keys/{KEY}",
        "/console/requests/REQUEST",
        f"/console/requests?team={OTHER}",
        f"/console/batches?team={OTHER}",
        f"/console/batches/BATCH?team={OTHER}",
        "/console/batches/BATCH?team=blue",
        "/console/batches",
        "/console/requests",
        "/console/teams",
        "/console/audit",
        "/console",
    ],
)
def test_no_page_shows_another_team(address: str, shared: Running, token: str, request_id: str, batch_id: str) -> None:
    """Neither by its address nor by a filter."""
    with client(shared, token) as http:
        response = http.get(address.replace("REQUEST", request_id).replace("BATCH", batch_id))
    text = unescape(response.text)
    for repeated in (address, f'value="{OTHER}"', f"'{OTHER}'", f"'{KEY}'"):  # the reader has sent these
        text = text.replace(repeated, "")

    assert OTHER not in text
    assert response.status_code < 500


@pytest.mark.parametrize(
    "path",
    [
        f"/teams/{OTHER}",
        f"/teams/{OTHER}/limits",
        f"/keys?team={OTHER}",
        f"/keys/{KEY}",
        f"/usage?team={OTHER}",
        f"/usage/records?team={OTHER}",
        f"/usage/export?team={OTHER}",
        f"/requests?team={OTHER}",
        "/requests/REQUEST",
        "/audit",
    ],
)
def test_the_admin_api_shows_no_other_team(path: str, shared: Running, request_id: str) -> None:
    """The console and the admin API have the same limits."""
    response = shared.ask("GET", path.replace("REQUEST", request_id), by="timo")

    assert response.status_code in (400, 403, 404) or [] == response.json()["data"]


def test_all_links_of_a_limited_viewer_work(shared: Running, token: str, request_id: str) -> None:
    """The navigation offers no page that the viewer may not read."""
    with client(shared, token) as http:
        links = read(http, "/console/teams/blue").links
        own = [link for link in links if link.startswith(f"{shared.url}/console")]
        statuses = {link: http.get(link, follow_redirects=True).status_code for link in own}

    assert {200} == set(statuses.values()), statuses
    assert [] == [link for link in own if OTHER in link or request_id in link]
