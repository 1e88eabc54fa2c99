"""Facts about the application of the console."""

from gateway.console.all_pages import PAGES
from gateway.console.answers import HEADERS
from tests.gateway.console.consoled import consoled


async def test_only_allowed_hosts_are_answered() -> None:
    async with consoled() as site:
        hosts = ["127.0.0.1:8080", "gateway.example.com", "evil.example.com", "localhost.evil.example.com"]
        answers = [await site.browser(host).get("/console/login") for host in hosts]

    assert [200, 200, 421, 421] == [answer.status_code for answer in answers]
    assert answers[2].text.startswith("The console does not answer requests for the host 'evil.example.com'.")


async def test_every_response_is_protected() -> None:
    async with consoled() as site:
        browser = site.browser()
        answers = [
            await browser.get("/console"),
            await browser.get("/console/login"),
            await browser.get("/console/nowhere"),
            await browser.get("/console/static/x"),
            await browser.post("/console/login", {}),
            await site.browser("evil.example.com").get("/console"),
        ]

    assert [303, 200, 404, 404, 403, 421] == [answer.status_code for answer in answers]
    for answer in answers:
        assert HEADERS.items() <= dict(answer.headers).items()


async def test_a_slash_at_the_end_leads_to_the_overview() -> None:
    async with consoled() as site:
        answer = await site.browser().get("/console/")

    assert (303, "/console") == (answer.status_code, answer.headers["location"])


def test_each_page_has_an_address_of_its_own() -> None:
    assert len(PAGES) == len({page.path for page in PAGES})
    assert all(page.path == "/console" or page.path.startswith("/console/") for page in PAGES)
