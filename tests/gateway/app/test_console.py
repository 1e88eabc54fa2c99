"""Facts about the assembly of the console."""

import httpx

from gateway.api.admin_access import AdminKey
from gateway.app.console import ConsoleRules, console_of
from tests.gateway.api.admin_v1.administration import KEYS, administration
from tests.gateway.examples import Clock

RULES = ConsoleRules(allowed_hosts=frozenset(), session_idle_s=600, session_max_s=3600)


async def test_there_is_no_console_unless_it_is_enabled() -> None:
    async with administration() as admin:
        how = {"keys": KEYS, "refused_logins": admin.refused_logins, "clock": Clock()}
        how |= {"store": admin.store, "wall_clock": admin.clock}

        assert console_of(None, admin=admin.api, **how) is None  # type: ignore[arg-type]
        assert console_of(RULES, admin=admin.api, **how) is not None  # type: ignore[arg-type]


async def test_the_link_logs_in_with_the_highest_role() -> None:
    keys = (
        AdminKey("of-blue", "owner", "d", "blue"),
        AdminKey("vi", "viewer", "a"),
        AdminKey("boss", "owner", "b"),
        AdminKey("op", "operator", "c"),
    )
    async with administration(keys=keys) as admin:
        app = console_of(
            RULES,
            admin=admin.api,
            keys=keys,
            refused_logins=admin.refused_logins,
            store=admin.store,
            wall_clock=admin.clock,
            clock=Clock(),
            login_token="link",
        )
        assert app is not None
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://localhost") as http:
            await http.get("/console/login?token=link")
            text = (await http.get("/console/nowhere")).text

    assert '<span class="name">boss</span>' in text
