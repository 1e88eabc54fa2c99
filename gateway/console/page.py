"""Pages and actions of the console, as data. The modules in `pages/` define them.

A page has a URL, a template, and a function that loads the values for the template from the admin API. Parts of a page
that change while the page is open are templates of their own, its live parts: see `gateway.console.events`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.api.admin_access import Role
from gateway.console.admin_client import AdminClient, Query
from gateway.console.forms import Form
from gateway.console.sessions import NoticeKind, Session

Context = dict[str, Any]
"""Values for a template, by name."""


@dataclass(frozen=True, slots=True)
class View:
    """One request for a page or an action."""

    session: Session
    admin: AdminClient
    """Client of the admin API with the admin key of the session."""
    query: Mapping[str, str]
    """Query parameters of the URL."""
    path: Mapping[str, str]
    """Variable parts of the URL path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Page of the console."""

    path: str
    """URL path, e.g. /console/models. Parts such as {name} are variable."""
    title: str
    template: str
    load: Callable[[View], Awaitable[Context]]
    """Function that returns the values for the template."""
    in_navigation: bool = False
    """Whether the navigation lists the page."""
    for_one_team: bool = False
    """Whether people whose admin key is limited to a team can open the page."""
    section: str | None = None
    """Path of the page in the navigation that this page belongs to. None means the page itself."""
    live: Mapping[str, str] = field(default_factory=dict)
    """Template of each live part, by the name in the attribute ``data-live`` of its element."""
    interval_s: float = 2.0
    """Seconds between two updates of the live parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """Address of a file that the admin API writes, such as an export."""

    path: str
    source: Callable[[View], tuple[tuple[str, ...], Query]]
    """Function that returns path and query of the admin API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Outcome of an action: the browser opens *location*, which shows *text*."""

    location: str
    text: str
    kind: NoticeKind = "done"
    """Whether *text* reports a success or a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Outcome of an action that a page of its own shows once, such as a new secret."""

    title: str
    template: str
    context: Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Outcome of an action that sends a completion, whose answer streams into a page. The page contains `MARKER`."""

    title: str
    template: str
    context: Context
    body: bytes
    """Body of the completion."""
    key: str = field(repr=False)
    """API key that the person typed, or an empty string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Change that a form of a page requests with POST. The console checks origin and session before it acts."""

    path: str
    role: Role
    """Role that the action needs. The admin API checks it again."""
    act: Callable[[View, Form], Awaitable[Done | Shown | Sent]]
    for_team_owner: bool = False
    """Whether people who manage the keys of one team can use the action. The admin API checks the team."""
    back: str
    """Path of the page that shows the error message if the action fails."""
    max_upload_bytes: int = 0
    """Maximum size of the files in the form, or 0 if the form has no files."""
