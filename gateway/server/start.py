"""Why an application did not start, as one sentence instead of a traceback."""

from gateway.errors import GatewayError
from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.listener import ServerError
from gateway.settings import SettingsError


class Start:
    """Keeps the fault with which a lifespan did not begin, if it is one that can be put into a sentence."""

    def __init__(self) -> None:
        self._fault: GatewayError | SettingsError | None = None

    def of(self, app: App) -> App:
        """Return the lifespan of *app*: the traceback of such a fault does not reach the server, which would log it."""

        async def lifespan(scope: Message, receive: Receive, send: Send) -> None:
            failed: list[Message] = []

            async def held(message: Message) -> None:
                if message["type"] == "lifespan.startup.failed":
                    failed.append(message)  # the fault comes next
                else:
                    await send(message)

            try:
                await app(scope, receive, held)
            except (GatewayError, SettingsError) as fault:
                self._fault = fault
                failed = [{**message, "message": ""} for message in failed]
                raise
            finally:
                for message in failed:
                    await send(message)

        return lifespan

    def fault(self, error: ServerError) -> Exception:
        """Return what to raise in place of *error*, which the server raised because the start failed."""
        if isinstance(self._fault, GatewayError):
            return ServerError(f"Warmgate cannot start: {self._fault.message}.")
        return self._fault or error
