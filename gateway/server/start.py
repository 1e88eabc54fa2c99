"""Report in one sentence, without a traceback, why an application did not start."""

from gateway.protocol.errors import GatewayError
from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.listener import ServerError


class StartWatcher:
    """Watcher that keeps the error with which an application failed to start, if the error is an expected one."""

    def __init__(self, *sentences: type[Exception]) -> None:
        """Create a watcher for GatewayError and the exception classes *sentences*, whose text is a sentence for the
        operator.
        """
        self._kinds: tuple[type[Exception], ...] = (GatewayError, *sentences)
        self._fault: Exception | None = None

    def watch(self, app: App) -> App:
        """Return *app*, changed so that the server does not log the traceback of an expected startup error."""

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
        """Return the exception to raise instead of *error*, which the server raised because the application did not
        start.
        """
        if isinstance(self._fault, GatewayError):
            return ServerError(f"Warmgate cannot start: {self._fault.message}.")
        return self._fault or error
