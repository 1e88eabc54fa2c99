"""Settings for the console, the web pages under ``/console``."""

from typing import Annotated

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import HostName, Positive


class ConsoleSettings(Group):
    enabled: bool = Field(
        default=False,
        description="serve web pages under /console, on the port that serves /admin/v1. The pages need the extra "
        "warmgate[console] and at least one admin key.",
    )
    allowed_hosts: Annotated[tuple[HostName, ...], Field(strict=False)] = Field(
        default=(),
        description="host names, without ports, under which browsers reach the console, e.g. gateway.example.com. "
        "Names of this machine (localhost, 127.0.0.1) and the address in admin.host or server.host are always allowed. "
        "Requests for other hosts get status 421.",
    )
    session_idle_s: Positive = Field(
        default=3600,
        description="seconds without a request after which a person must log in to the console again. Live updates "
        "of an open page are not requests in this sense.",
    )
    session_max_s: Positive = Field(
        default=43_200, description="seconds after which a person must log in to the console again in any case"
    )
