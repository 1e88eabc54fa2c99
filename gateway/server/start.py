"""The reason why an application did not start, in one sentence instead of a traceback."""

from gateway.protocol.errors import GatewayError
from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.listener import ServerError


class StartWatcher:
    """Keeps the error with which a lifespan failed to start, if it is an expected one."""

    def __init__(self, *sentences: type[Exception]) -> None:
        """*sentences*: exceptions whose text is the sentence, beside GatewayError."""
        self._kinds: tuple[type[Exception], ...] = (GatewayError, *sentences)
        self._fault: Exception | None = None

    def watch(self, app: App) -> App:
        """Return the lifespan of *app* without tracebacks of expected errors, which the server would log."""

        async def lifespan(scope: Message, receive: Receive, send: Send) -> None:
            failed: list[Message] = []

            async def held(message: Message) -> None:
                if message["type"] == "lifespan.startup.failed":
                    failed.append(message)  # the error follows
                else:
                    await send(message)

            try:
                await app(scope, receive, held)
            except self._kinds as fault:
                self._fault = fault
                failed = [{**message, "message": ""} for message in failed]
                raise
            finally:
                for message in failed:
                    await send(message)

        return lifespan

    def fault(self, error: ServerError) -> Exception:
        """Return what to raise instead of *error*, which the server raised after the failed start."""
        if isinstance(self._fault, GatewayError):
            return ServerError(f"Warmgate cannot start: {self._fault.message}.")
        return self._fault or error
