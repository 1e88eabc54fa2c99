"""Why an application did not start."""

import pytest

from gateway.errors import StoreAway
from gateway.server import Message, Receive, Send, ServerError
from gateway.server.start import Start
from gateway.settings import SettingsError

TRACEBACK = "Traceback (most recent call last): ..."


class Fails:
    """An application whose lifespan does not begin because of *fault*, told as Starlette does."""

    def __init__(self, fault: Exception) -> None:
        self.fault = fault

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.failed", "message": TRACEBACK})
            raise self.fault
        await send({"type": "http.response.start", "status": 204})


async def told(start: Start, fault: Exception, kind: str = "lifespan") -> list[Message]:
    """What a server is told."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    app = start.of(Fails(fault))
    if kind != "lifespan":
        await app({"type": kind}, receive, send)
        return sent
    with pytest.raises(type(fault)):
        await app({"type": kind}, receive, send)
    return sent


async def test_a_store_that_cannot_be_used_is_one_sentence() -> None:
    start, error = Start(), ServerError("its error is above")
    sent = await told(start, StoreAway("The file w.db cannot be used: file is not a database"))
    fault = start.fault(error)

    assert [{"type": "lifespan.startup.failed", "message": ""}] == sent
    assert isinstance(fault, ServerError)
    assert "Warmgate cannot start: The file w.db cannot be used: file is not a database." == str(fault)


async def test_settings_that_turn_out_to_be_wrong_are_told_as_such() -> None:
    """With the exit code of bad settings."""
    start, wrong = Start(), SettingsError(["Two keys have one secret."])
    await told(start, wrong)

    assert wrong is start.fault(ServerError("its error is above"))


async def test_what_nobody_foresaw_keeps_its_traceback() -> None:
    start, error = Start(), ServerError("its error is above")
    sent = await told(start, ZeroDivisionError())

    assert [{"type": "lifespan.startup.failed", "message": TRACEBACK}] == sent
    assert error is start.fault(error)


async def test_requests_pass() -> None:
    assert [{"type": "http.response.start", "status": 204}] == await told(Start(), ZeroDivisionError(), kind="http")
