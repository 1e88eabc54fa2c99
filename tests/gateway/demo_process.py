"""The demo in a process of its own: `python -m tests.gateway.demo_process simulates`, or `lingers`."""

import json
import os
import signal
import sys
import time

from gateway.cli.demo import SIMULATE, DemoOptions, run_demo
from gateway.cli.simulate import end_with_stdin
from gateway.server.asgi import App, Message, Receive, Send
from gateway.settings import Settings

LINGER_S = 0.3


def create_app(settings: Settings) -> App:
    """Answers with the workers of its settings."""
    body = json.dumps([worker.url for worker in settings.models[0].workers]).encode()

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return app


def be_a_worker(manner: str) -> None:
    """Say ready, with the process id in the address, and stay; one that `lingers` heeds no SIGTERM."""
    if manner == "lingers":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_with_stdin(LINGER_S)
    sys.stdout.write(f"loading\nready: http://worker-{os.getpid()}\n" + "more\n" * 100_000)
    sys.stdout.flush()
    time.sleep(60)


def main() -> None:
    _, manner, *rest = sys.argv
    if rest:
        be_a_worker(manner)
        return
    ours = (sys.executable, "-m", "tests.gateway.demo_process", manner, "worker")
    worker = SIMULATE if manner == "simulates" else ours
    run_demo(DemoOptions(port=0, workers=2), environ={}, create_app=create_app, simulate=worker, linger_s=LINGER_S)


if __name__ == "__main__":
    main()
