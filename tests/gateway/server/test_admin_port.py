import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import httpx
import pytest

from gateway.app.serving import serve
from gateway.server.admin_port import listening, with_admin_port
from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.listener import ServerError, bind
from gateway.server.shared_state import ConnectionLimits
from gateway.settings import Settings, build
from tests.gateway.asgi import running
from tests.gateway.server import harness
from tests.gateway.server.harness import free_port, while_served


def settings(admin_port: int = 0, **server: Any) -> Settings:
    models = [{"name": "tiny", "workers": [{"url": "http://a"}]}]
    return build({"models": models, "server": server, "admin": {"port": admin_port}}, {})


def answering(text: str) -> App:
    """Knows of no lifespan."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        assert "http" == scope["type"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": text.encode()})

    return app


def pausing(asked: asyncio.Event, may_end: asyncio.Event) -> App:
    """Answers when it may, and says that it was asked."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        asked.set()
        await may_end.wait()
        await answering("late")(scope, receive, send)

    return app


@asynccontextmanager
async def served(admin: App, *, grace_s: float) -> AsyncIterator[str]:
    """The address of *admin* beside an application, while that one's lifespan is on."""
    with listening("127.0.0.1", 0) as listener:
        app = with_admin_port(harness.create_app(settings()), admin, listener, ConnectionLimits(), grace_s=grace_s)
        async with running(app):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def ask(url: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=30) as client:
        return await client.get(url)


async def until_refused(url: str) -> None:
    """Wait until the port is closed. A connection accepted just before may still be answered."""
    host, port = url.removeprefix("http://").split(":")
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except ConnectionError:
                return
            writer.close()
            await asyncio.sleep(0.01)


class TwoSided:
    """The application of the harness, with another one for the admin port."""

    def __init__(self, given: Settings, *, admin: App | None = None) -> None:
        self._app = harness.create_app(given)
        self.admin = admin or answering("admin")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def test_the_admin_routes_are_up_before_the_gateway_is_ready(capfd: pytest.CaptureFixture[str]) -> None:
    """They have their own port in the same process, closed when the gateway has ended."""
    port, admin_port = free_port(), free_port()
    admin_url = f"http://127.0.0.1:{admin_port}"

    def client(url: str) -> list[str]:
        return [
            httpx.get(admin_url, timeout=60).text,
            httpx.get(url, timeout=60).text,
            httpx.get(f"{url}/SIGTERM", timeout=60).text,
        ]

    answers = while_served(client, settings(admin_port, port=port), create_app=TwoSided)

    assert ["admin", "ok", "ok"] == answers
    assert (f"admin: {admin_url}\nready: http://127.0.0.1:{port}\nlifespan ended\n", "") == capfd.readouterr()
    with pytest.raises(httpx.ConnectError):
        httpx.get(admin_url, timeout=60)


def test_a_port_of_0_is_announced() -> None:
    """A program can find it."""
    addresses: list[str] = []

    def announce(url: str) -> None:
        addresses.append(url)
        signal.raise_signal(signal.SIGTERM)

    serve(settings(port=0), create_app=TwoSided, announce=announce, announce_admin=addresses.append)

    assert 2 == len(set(addresses))
    assert all(url.startswith("http://127.0.0.1:") and not url.endswith(":0") for url in addresses)


def test_a_taken_admin_port_is_reported_before_anything_starts() -> None:
    """Host, port and the system's reason; the application is never made."""

    def create_app(_: Settings) -> App:
        raise AssertionError("made")

    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=f"^Cannot listen on 127.0.0.1 port {port}: Address already in use.$"):
            serve(settings(port, port=free_port()), create_app=create_app)


def test_a_port_that_another_program_bound_and_did_not_listen_on_is_ours() -> None:
    """The first to listen has it, and the other one fails."""
    with closing(bind("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        with listening("127.0.0.1", port), pytest.raises(OSError, match="in use"):
            bound.listen()


def test_an_application_without_admin_routes_has_no_use_for_the_port() -> None:
    """It would accept connections without answering them."""
    with pytest.raises(ServerError, match=r"admin\.port is set, but this application has no admin routes"):
        serve(settings(port=0), create_app=harness.create_app)


class TestTheEnd:
    async def test_a_request_that_runs_may_end(self) -> None:
        """The stop waits for it, and takes no connection more."""
        asked, may_end = asyncio.Event(), asyncio.Event()

        async def end_when_refused(url: str) -> None:
            await until_refused(url)
            may_end.set()

        async with asyncio.TaskGroup() as tasks, served(pausing(asked, may_end), grace_s=600) as url:
            request = tasks.create_task(ask(url))
            await asked.wait()
            tasks.create_task(end_when_refused(url))

        assert "late" == request.result().text

    async def test_a_request_that_goes_on_is_cut(self) -> None:
        """After the grace."""
        asked, never = asyncio.Event(), asyncio.Event()

        async def ask_in_vain(url: str) -> None:
            with pytest.raises(httpx.TransportError):
                await ask(url)
            never.set()

        async with asyncio.TaskGroup() as tasks, served(pausing(asked, never), grace_s=0.01) as url:
            tasks.create_task(ask_in_vain(url))
            await asked.wait()

    async def test_an_idle_connection_does_not_delay_it(self) -> None:
        """It is closed."""
        async with httpx.AsyncClient(timeout=60) as client:
            async with asyncio.timeout(60), served(answering("admin"), grace_s=600) as url:
                assert "admin" == (await client.get(url)).text
            with pytest.raises(httpx.ConnectError):
                await client.get(url)

    async def test_an_application_that_fails_while_it_runs_takes_it_along(self) -> None:
        """The port closes after any kind of end."""
        addresses: list[str] = []

        async def failing(scope: Message, receive: Receive, send: Send) -> None:
            await send({"type": "lifespan.startup.complete"})
            raise RuntimeError("broken")

        async def send(message: Message) -> None:
            addresses.append((await ask(url)).text)

        with listening("127.0.0.1", 0) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            app = with_admin_port(failing, answering("admin"), listener, ConnectionLimits(), grace_s=0)
            with pytest.raises(RuntimeError, match="broken"):
                await app({"type": "lifespan"}, asyncio.Event().wait, send)  # type: ignore[arg-type]
            await until_refused(url)
