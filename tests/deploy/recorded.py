"""What exporters tell that cannot run here: a GPU's, and of vLLM what simulated workers leave out."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RECORDED = {
    path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "expositions").glob("*.prom")
}
"""In Prometheus's text format, by who reports it; each file says where its names are from."""


def grown(text: str, times: int) -> str:
    """With every count *times* as high: what would stand there so many scrapes later. Gauges stay."""
    lines = []
    counted: set[str] = set()
    for line in text.splitlines():
        match line.split():
            case ["#", "TYPE", name, "counter" | "histogram"]:
                counted.add(name)
            case [sample, value] if sample.startswith(tuple(f"{name}_" for name in counted)):
                line = f"{sample} {float(value) * times}"  # noqa: PLW2901  # the line as it is reported
        lines.append(line)
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def exporting() -> Iterator[dict[str, str]]:
    """While inside, each is served as if it lived. Where, by who reports it: the host and port of its `/metrics`."""
    with contextlib.ExitStack() as exits:
        yield {name: exits.enter_context(_served(text)) for name, text in RECORDED.items()}


@contextlib.contextmanager
def _served(text: str) -> Iterator[str]:
    scrapes = 0

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that the standard library asks for
            nonlocal scrapes
            scrapes += 1
            body = grown(text, scrapes).encode()
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: a scrape each second."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
