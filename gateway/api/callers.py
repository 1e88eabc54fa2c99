"""Authentication of callers on routes that FastAPI serves, with the same keys as for completions."""

from typing import Annotated

from fastapi import Depends, Request

from gateway.proxy.incoming import Incoming
from gateway.tenancy.teams.access import Access
from gateway.tenancy.teams.caller import Caller


async def _caller(request: Request) -> Caller | None:
    access: Access = request.app.state.access
    incoming = Incoming(request.scope, request.receive)
    return await access.sure_caller(
        incoming.text_of,
        incoming.peer,
        incoming.all_of,
        fields=incoming.fields,
        is_http_1_0=incoming.is_http_1_0,
    )


AnyCaller = Annotated[Caller | None, Depends(_caller)]
"""Authenticated caller, or None for a request from the gateway's own machine while no keys exist.

Raises the same errors as `Access.caller`.
"""
