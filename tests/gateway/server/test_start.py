"""Errors of an application that does not start."""

import pytest

from gateway.protocol.errors import StoreUnavailable
from gateway.server.asgi import Message, Receive, Send
from gateway.server.listener import ServerError
from gateway.server.start import StartWatcher

TRACEBACK = "Traceback (most recent call last): ..."


class Fails:
    """An application whose lifespan fails to start because of *fault*, as Starlette reports it."""

    def __init__(self, fault: Exception) -> None:
        self.fault = fault

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.failed", "message": TRACEBACK})
            raise self.fault
        await send({"type": "http.response.start", "status": 204})


async def messages_after(start: StartWatcher, fault: Exception, kind: str = "lifespan") -> list[Message]:
    """Return the messages that a server gets."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    app = start.watch(Fails(fault))
    if kind != "lifespan":
        await app({"type": kind}, receive, send)
        return sent
    with pytest.raises(type(fault)):
        await app({"type": kind}, receive, send)
    return sent


async def test_a_store_that_cannot_be_used_is_one_sentence() -> None:
    start, error = StartWatcher(), ServerError("its error is above")
    sent = await messages_after(start, StoreUnavailable("The file w.db cannot be used: file is not a database"))
    fault = start.fault(error)

    assert [{"type": "lifespan.startup.failed", "message": ""}] == sent
    assert isinstance(fault, ServerError)
    assert "Warmgate cannot start: The file w.db cannot be used: file is not a database." == str(fault)


async def test_an_error_in_the_settings_is_kept() -> None:
    """The exit code is that of bad settings."""
    start, wrong = StartWatcher(ValueError), ValueError("Two keys have one secret.")
    await messages_after(start, wrong)

    assert wrong is start.fault(ServerError("its error is above"))


async def test_an_unexpected_error_keeps_its_traceback() -> None:
    start, error = StartWatcher(), ServerError("its error is above")
    sent = await messages_after(start, ZeroDivisionError())

    assert [{"type": "lifespan.startup.failed", "message": TRACEBACK}] == sent
    assert error is start.fault(error)


async def test_requests_pass() -> None:
    assert [{"type": "http.response.start", "status": 204}] == await messages_after(
        StartWatcher(), ZeroDivisionError(), kind="http"
    )
