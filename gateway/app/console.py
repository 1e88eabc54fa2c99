"""Assembly of the console. Its packages are imported only if the console is enabled, because they are an extra."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.api.admin_access import ROLES, AdminAccess, AdminKey
from gateway.api.refused_logins import RefusedLogins
from gateway.server.asgi import App
from gateway.tenancy.teams.team_store import TeamStore

if TYPE_CHECKING:
    from gateway.console.identity_provider import IdentityProvider

TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleRules:
    """Options of the console."""

    allowed_hosts: frozenset[str]
    session_idle_s: float
    session_max_s: float
    trusted_proxies: Sequence[str] = ()


def console_of(
    rules: ConsoleRules | None,
    *,
    admin: App,
    keys: Sequence[AdminKey],
    refused_logins: RefusedLogins,
    store: TeamStore,
    wall_clock: Callable[[], float],
    clock: Callable[[], float],
    completions: App | None = None,
    providers: Sequence["IdentityProvider"] = (),
    login_token: str | None = None,
) -> App | None:
    """Return the console, or None if *rules* is None.

    The audit log in *store* contains logins. *completions* serves the completions that the console sends. *providers*
    are identity providers with which people can log in. *login_token* logs in once as the first admin key with the
    highest role, within 10 minutes.
    """
    if rules is None:
        return None
    from gateway.console.application import ConsoleOptions, console  # noqa: PLC0415 - an extra
    from gateway.console.login_links import LoginLinks  # noqa: PLC0415
    from gateway.console.login_records import LoginRecords  # noqa: PLC0415

    links = LoginLinks(clock=clock)
    if login_token is not None and keys:
        links.add(login_token, max(keys, key=_rank))
    return console(
        ConsoleOptions(
            allowed_hosts=rules.allowed_hosts,
            session_idle_s=rules.session_idle_s,
            session_max_s=rules.session_max_s,
            trusted_proxies=rules.trusted_proxies,
        ),
        admin=admin,
        access=AdminAccess(keys),
        links=links,
        refused_logins=refused_logins,
        login_records=LoginRecords(store, wall_clock=wall_clock),
        clock=clock,
        new_token=partial(secrets.token_urlsafe, TOKEN_BYTES),
        completions=completions,
        providers=providers,
    )


def _rank(key: AdminKey) -> tuple[bool, int]:
    return key.team is None, ROLES.index(key.role)
