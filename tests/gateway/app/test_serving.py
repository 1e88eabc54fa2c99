import os
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import httpx
import pytest

from gateway.app.serving import serve
from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.listener import ServerError, bind
from gateway.settings import Settings
from tests.gateway.server.harness import (
    answer_to,
    connected,
    create_app,
    free_port,
    served_elsewhere,
    settings,
    while_served,
)

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("stop", ["SIGINT", "SIGTERM"])
def test_it_says_once_that_it_is_ready_and_ends_cleanly(stop: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One line on stdout when requests are answered; a stop lets the running request and the lifespan end."""
    port = free_port()

    def client(url: str) -> list[str]:
        return [httpx.get(url, timeout=60).text, httpx.get(f"{url}/{stop}", timeout=60).text]

    answers = while_served(client, settings(port=port))

    assert ["ok", "ok"] == answers
    assert (f"ready: http://127.0.0.1:{port}\nlifespan ended\n", "") == capfd.readouterr()


def test_a_request_that_does_not_end_is_cut_after_the_grace(capfd: pytest.CaptureFixture[str]) -> None:
    """The stop waits no longer than the grace; a cut request may say so, and settle, before the lifespan ends."""
    port = free_port()

    def client(url: str) -> tuple[float, str]:
        before = time.monotonic()
        answer = httpx.get(f"{url}/hangs", timeout=60).text
        return time.monotonic() - before, answer

    took_s, answer = while_served(client, settings(port=port, shutdown_grace_s=1))

    assert "cut" == answer
    assert 0.9 < took_s < 25
    assert f"ready: http://127.0.0.1:{port}\nsettled\nlifespan ended\n" == capfd.readouterr().out


def test_requests_are_taken_for_a_while_after_sigterm() -> None:
    """On new connections too, and notified of the stop at once; each answer is the last on its connection."""

    def client(url: str) -> list[tuple[str, bool]]:
        with httpx.Client(timeout=60) as http:
            answers = [http.get(f"{url}/{path}") for path in ("stopping", "SIGTERM", "stopping", "stopping")]
        os.kill(os.getpid(), signal.SIGINT)
        return [(answer.text, answer.headers.get("connection") == "close") for answer in answers]

    answers = while_served(client, settings(port=free_port(), stop_delay_s=600))

    assert [("no", False), ("ok", True), ("yes", True), ("yes", True)] == answers


def test_when_the_delay_is_over_no_one_is_let_in() -> None:
    def client(url: str) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        until_refused(url)
        return "refused"

    given = settings(port=free_port(), stop_delay_s=0.2)

    assert "refused" == while_served(client, given)


def test_who_has_connected_before_the_end_is_answered() -> None:
    """Also where the loop has not seen it yet: to close the listener would reset it."""

    def client(url: str) -> str:
        with ThreadPoolExecutor(1) as thread:
            busy = thread.submit(httpx.get, f"{url}/busy", timeout=60)
            time.sleep(0.3)
            answer = httpx.get(url, timeout=60).text
            return busy.result().text + answer

    assert "okok" == while_served(client, settings(port=free_port()))


@pytest.mark.parametrize("signals", [("SIGTERM", "SIGINT"), ("SIGINT", "SIGINT")])
def test_sigint_after_another_signal_waits_for_nothing(
    signals: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither for the delay nor for the grace; what runs is cut, and may settle."""

    def client(url: str) -> float:
        before = time.monotonic()
        with ThreadPoolExecutor(1) as thread:
            hanging = thread.submit(hang, url)
            while httpx.get(f"{url}/running", timeout=60).text != "1":
                time.sleep(0.01)
            os.kill(os.getpid(), signal.Signals[signals[0]])
            until_stopping(url)  # two signals of one kind might be seen as one
            os.kill(os.getpid(), signal.Signals[signals[1]])
            hanging.result()
        return time.monotonic() - before

    def hang(url: str) -> None:
        with suppress(httpx.HTTPError):
            httpx.get(f"{url}/waits", timeout=60)

    given = settings(port=free_port(), stop_delay_s=400, shutdown_grace_s=400)

    assert while_served(client, given) < 100
    assert capfd.readouterr().out.endswith("\nsettled\nlifespan ended\n")


def until_stopping(url: str) -> None:
    """It says so, or lets no one in any more."""
    with suppress(httpx.HTTPError):
        while httpx.get(f"{url}/stopping", timeout=60).text != "yes":
            time.sleep(0.01)


def until_refused(url: str) -> None:
    """No one listens there any more."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            connected(url).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.02)
    raise AssertionError("it goes on listening")


def test_more_clients_than_files_are_not_promised(caplog: pytest.LogCaptureFixture) -> None:
    """A client that is let in can be served: the log says how many can be."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if limit == resource.RLIM_INFINITY:
        pytest.skip("there is no limit here")
    given = settings(port=free_port(), max_connections=limit)

    def client(url: str) -> str:
        return httpx.get(f"{url}/SIGTERM", timeout=60).text

    assert "ok" == while_served(client, given)
    assert f"can open at most {limit} files (ulimit -Hn)" in caplog.text
    assert f"instead of {limit}." in caplog.text


def test_gateways_of_one_machine_may_share_a_port() -> None:
    """Both have their part of the clients."""
    port = free_port()
    with (
        served_elsewhere(port=port, reuse_port=True) as first,
        served_elsewhere(port=port, reuse_port=True) as second,
    ):
        assert f"http://127.0.0.1:{port}" == first == second

        # A connection of its own for each, without the certificates that a client of httpx loads.
        pids = {answer_to(first, b"GET /pid HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")[-8:] for _ in range(200)}

    assert 2 == len(pids)


def test_a_port_in_use_is_one_sentence() -> None:
    """Host, port and the system's reason."""
    with closing(bind("127.0.0.1", 0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServerError) as raised:
            serve(settings(port=port), create_app=create_app)

    assert f"Cannot listen on 127.0.0.1 port {port}: Address already in use." == str(raised.value)


def test_an_application_that_fails_to_start_is_never_ready(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The error of the application is logged, and one sentence points to it."""

    def failing(_: Settings) -> App:
        async def app(_: Message, receive: Receive, __: Send) -> None:
            await receive()
            raise RuntimeError("no Redis")

        return app

    with pytest.raises(ServerError) as raised:
        serve(settings(port=free_port()), create_app=failing)

    assert "The application did not start. Its error is logged above." == str(raised.value)
    assert "no Redis" in caplog.text
    assert "" == capfd.readouterr().out


class Probed:
    """The application of the harness, and the same on the port for probes."""

    def __init__(self, given: Settings) -> None:
        self._app = create_app(given)
        self.probes = create_app(given)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def test_probes_are_answered_on_a_port_of_their_own_until_the_last_request_has_ended() -> None:
    """They say that it stops, while a request runs that was there before."""
    port, probes_port = free_port(), free_port()
    probes = f"http://127.0.0.1:{probes_port}/stopping"

    def client(url: str) -> list[str]:
        before = httpx.get(probes, timeout=60).text
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(httpx.get, f"{url}/SIGTERM", timeout=60)
            while (after := httpx.get(probes, timeout=60).text) == "no" and not running.done():
                time.sleep(0.001)
            return [before, after, running.result().text]

    given = settings(port=port, probes_port=probes_port)

    assert ["no", "yes", "ok"] == while_served(client, given, create_app=Probed)
    with pytest.raises(httpx.ConnectError):
        httpx.get(probes, timeout=60)


def test_an_application_without_probes_has_no_use_for_their_port() -> None:
    """It would accept connections that no one answers."""
    with pytest.raises(ServerError, match=r"server\.probes_port is set, but this application has no probes"):
        serve(settings(port=0, probes_port=free_port()), create_app=create_app)
