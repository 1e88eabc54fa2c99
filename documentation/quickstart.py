"""`python -m documentation.quickstart`: record the quickstart of the README, and draw its picture.

The command starts `warmgate demo` on the port that the README names, and runs the README's request twice. The recorded
session has the commands and their real output. Keys are masked, and `…` stands for lines that are left out.
"""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from documentation.examples import examples_of
from documentation.pictures.gallery import FOLDER
from documentation.pictures.quickstart import SESSION, quickstart
from documentation.pictures.terminal import CUT

ROOT = Path(__file__).resolve().parents[1]
PORT = 8080
"""Port in the README's examples."""
MASK = "wg-demo-..."
"""Text that the README shows in place of a key."""
SHOWN_HEADERS = ("x-warmgate-worker:", "x-warmgate-hit-")
_USAGE = re.compile(r'"usage":\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}')


def record(readme: str, port: int) -> str:
    """Run the quickstart of the text *readme* on *port*, and return the session."""
    request = request_in(readme)
    with _demo(port) as introduction:
        key = key_in(introduction)
        answers = [_output(request.replace(f":{PORT}/", f":{port}/"), key) for _ in range(2)]
    first, *more = request.splitlines()
    again = first.rstrip("\\").rstrip()
    lines = [
        "# Terminal 1",
        "$ warmgate demo",
        *shown_introduction(introduction, key),
        "# Terminal 2",
        f"$ KEY={MASK}",
        f"$ {first}",
        *(f"> {line}" for line in more),
        *shown_answer(answers[0]),
        f"$ {again} {CUT}",
        *shown_answer(answers[1]),
    ]
    return "\n".join(lines) + "\n"


def request_in(readme: str) -> str:
    """Return the shell command in the text *readme* that sends a request with a key."""
    blocks = (example.text for example in examples_of(readme) if example.language == "sh")
    block = next(text for text in blocks if "curl -i" in text)
    return block[block.index("curl -i") :].rstrip()


def key_in(introduction: list[str]) -> str:
    """Return the API key in the lines that the demo prints."""
    return next(line.strip() for line in introduction if line.strip().startswith("wg-"))


def shown_introduction(introduction: list[str], key: str) -> Iterator[str]:
    """Yield the lines of *introduction* up to the API key, and the last line."""
    lines = [line for line in introduction if line]
    yield from lines[: lines.index(f"    {key}")]
    yield from (f"    {MASK}", CUT, lines[-1])


def shown_answer(answer: str) -> Iterator[str]:
    """Yield the status, the interesting headers and the usage of the HTTP response *answer*."""
    head, _, body = answer.replace("\r\n", "\n").partition("\n\n")
    status, *headers = head.split("\n")
    usage = _USAGE.search(body)
    assert usage is not None, "the answer has no usage"
    yield from (status, CUT, *(line for line in headers if line.startswith(SHOWN_HEADERS)), "", f"{CUT}{usage[0]}{CUT}")


@contextmanager
def _demo(port: int) -> Iterator[list[str]]:
    """Run the demo on *port*, and yield the lines that it prints until it is ready."""
    command = [sys.executable, "-m", "gateway", "demo", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as demo:  # noqa: S603
        try:
            assert demo.stdout is not None
            lines: list[str] = []
            for line in demo.stdout:
                lines.append(line.rstrip("\n"))
                if line.startswith("ready: "):
                    break
            yield lines
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate()


def _output(command: str, key: str) -> str:
    """Return what the shell *command* prints, with *key* in the variable KEY."""
    script = f"KEY={key}\n{command}"
    return subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout  # noqa: S603


def main() -> None:
    SESSION.write_text(record((ROOT / "README.md").read_text(encoding="utf-8"), PORT), encoding="utf-8")
    (FOLDER / "quickstart.svg").write_text(quickstart(), encoding="utf-8")


if __name__ == "__main__":
    main()
