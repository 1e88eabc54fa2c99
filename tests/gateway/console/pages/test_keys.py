"""Facts about the page with one key, and about the actions with keys."""

import re

from tests.gateway.console.consoled import Browser, consoled


def secret_in(text: str) -> str:
    found = re.search(r'<code id="secret">([^<]+)</code>', text)
    assert found is not None
    return found[1]


async def with_key(browser: Browser) -> str:
    """The secret of a new key blue-1 of the team blue."""
    await browser.submit("/console/do/create-team", name="blue")
    return secret_in((await browser.submit("/console/do/create-key", team="blue", id="blue-1", once="a" * 20)).text)


async def test_a_secret_is_shown_once() -> None:
    async with consoled() as site:
        browser = await site.logged_in()
        secret = await with_key(browser)
        pages = [
            (await browser.get(path)).text for path in ("/console/teams/blue", "/console/keys/blue-1", "/console/audit")
        ]

        assert secret.startswith("wg-blue-1-")
        assert [False] * 3 == [secret in page for page in pages]
        assert '<a href="/console/keys/blue-1">blue-1</a>' in pages[0]


async def test_a_form_sent_twice_creates_one_key() -> None:
    async with consoled() as site:
        browser = await site.logged_in()
        await browser.submit("/console/do/create-team", name="blue")
        texts = [
            (await browser.submit("/console/do/create-key", team="blue", once="b" * 20, project="p")).text for _ in "ab"
        ]

        assert secret_in(texts[0]) == secret_in(texts[1])
        assert 1 == len((await site.administration.get("/keys"))["data"])


async def test_a_rotated_key_has_another_secret() -> None:
    async with consoled() as site:
        browser = await site.logged_in()
        former = await with_key(browser)
        answer = await browser.submit("/console/do/rotate-key", id="blue-1", grace_s="60", once="c" * 20)

        assert secret_in(answer.text) != former
        assert "Former secret" in answer.text
        await browser.submit("/console/do/rotate-key", id="blue-1", grace_s="soon")
        assert "The grace period must be a number of seconds." in (await browser.get("/console/teams")).text


async def test_keys_are_limited_blocked_and_deleted() -> None:
    async with consoled() as site:
        browser = await site.logged_in()
        await with_key(browser)
        await browser.submit("/console/do/limit-key", id="blue-1", concurrent="3")
        await browser.submit("/console/do/block-key", id="blue-1", blocked="true")
        key = await site.administration.get("/keys/blue-1")
        assert ({"concurrent": 3}, True) == (key["limits"], key["blocked"])
        text = (await browser.get("/console/keys/blue-1")).text
        assert "<dt>Concurrent requests</dt><dd>3</dd>" in text

        answer = await browser.submit("/console/do/delete-key", id="blue-1")
        assert "/console/teams/blue" == answer.headers["location"]
        assert 404 == (await browser.get("/console/keys/blue-1")).status_code


async def test_an_operator_creates_and_deletes_nothing() -> None:
    async with consoled() as site:
        await with_key(await site.logged_in())
        browser = await site.logged_in("op")
        actions = ("create-key", "rotate-key", "delete-key", "create-team")
        answers = [await browser.submit(f"/console/do/{each}", id="blue-1", team="blue") for each in actions]

        assert [403] * 4 == [answer.status_code for answer in answers]
        text = (await browser.get("/console/keys/blue-1")).text
        assert [True, False, False] == [
            f"/console/do/{each}" in text for each in ("limit-key", "rotate-key", "delete-key")
        ]
