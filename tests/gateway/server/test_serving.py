import time
from contextlib import closing

import httpx
import pytest

from gateway.server import App, Message, Receive, Send, ServerError, bind, serve
from gateway.settings import Settings
from tests.gateway.server.harness import create_app, free_port, settings, while_served

both = pytest.mark.parametrize("implementation", ["uvicorn", "granian"])


@pytest.mark.parametrize(
    ("implementation", "stop"), [("uvicorn", "SIGINT"), ("uvicorn", "SIGTERM"), ("granian", "SIGTERM")]
)
def test_it_says_once_that_it_is_ready_and_ends_cleanly(
    implementation: str, stop: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line on stdout when requests are answered; a stop lets the running request and the lifespan end."""
    port = free_port()

    def client(url: str) -> list[str]:
        return [httpx.get(url).text, httpx.get(f"{url}/{stop}").text]

    answers = while_served(client, settings(implementation=implementation, port=port))

    assert ["ok", "ok"] == answers
    assert (f"ready: http://127.0.0.1:{port}\nlifespan ended\n", "") == capfd.readouterr()


@both
def test_a_request_that_does_not_end_is_cut_after_the_grace(implementation: str) -> None:
    """The stop does not wait longer than it was told to."""

    def client(url: str) -> float:
        before = time.monotonic()
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url}/hangs", timeout=20).raise_for_status()
        return time.monotonic() - before

    took_s = while_served(client, settings(implementation=implementation, port=free_port(), shutdown_grace_s=1))

    assert 0.9 < took_s < 15


@both
def test_a_port_in_use_is_one_sentence(implementation: str) -> None:
    """Host, port and the system's reason."""
    with closing(bind("127.0.0.1", 0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServerError) as raised:
            serve(settings(implementation=implementation, port=port), create_app=create_app)

    assert f"Cannot listen on 127.0.0.1 port {port}: Address already in use." == str(raised.value)


@both
def test_an_application_that_fails_to_start_is_never_ready(
    implementation: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The error of the application is logged, and one sentence points to it."""

    def failing(_: Settings) -> App:
        async def app(_: Message, receive: Receive, __: Send) -> None:
            await receive()
            raise RuntimeError("no Redis")

        return app

    with pytest.raises(ServerError) as raised:
        serve(settings(implementation=implementation, port=free_port()), create_app=failing)

    assert "The application did not start; its error is above." == str(raised.value)
    assert "no Redis" in caplog.text
    assert "" == capfd.readouterr().out
