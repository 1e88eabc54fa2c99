"""Facts about the overview."""

from tests.gateway.console.consoled import consoled


async def test_workers_are_shown_with_their_state() -> None:
    async with consoled() as site:
        text = (await (await site.logged_in("vi")).get("/console")).text

    assert "<h2>tiny</h2>" in text
    assert '<span class="state good">up</span>' in text
    assert '<p class="empty">This model has no workers.</p>' in text
