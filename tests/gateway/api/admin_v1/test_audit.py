"""/admin/v1/audit."""

from tests.gateway.api.admin_v1.administration import Administration, fault


async def test_an_empty_log(admin: Administration) -> None:
    assert {"object": "list", "data": [], "has_more": False, "next": None} == await admin.get("/audit")


async def test_the_log_in_pages(admin: Administration) -> None:
    """The latest first; what is changed meanwhile moves nothing."""
    for name in "abcde":
        await admin.make("teams", name=name)
    first = await admin.get("/audit?limit=3")
    await admin.make("teams", name="f")
    second = await admin.get(f"/audit?limit=3&after={first['next']}")

    assert ["e", "d", "c", "b", "a"] == [entry["id"] for entry in first["data"] + second["data"]]
    assert (True, False) == (first["has_more"], second["has_more"])


async def test_an_entry_has_everything(admin: Administration) -> None:
    await admin.make("teams", name="blue")
    (entry,) = await admin.audited()

    assert {"time", "who", "role", "action", "kind", "id", "team", "before", "after"} == entry.keys()


async def test_reading_is_not_logged(admin: Administration) -> None:
    await admin.get("/teams")
    await admin.get("/usage")

    assert [] == await admin.audited()


async def test_what_was_refused_is_not_logged(admin: Administration) -> None:
    await admin.ask("POST", "/teams", {"name": "x y"})
    await admin.ask("DELETE", "/teams/blue")
    await admin.ask("POST", "/teams", {"name": "blue"}, who="vi")

    assert [] == await admin.audited()


async def test_a_cursor_that_is_not_one(admin: Administration) -> None:
    assert (400, None, "after") == fault(await admin.ask("GET", "/audit?after=xyz"))
