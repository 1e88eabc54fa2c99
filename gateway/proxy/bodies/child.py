"""Child process that decodes large request bodies, so that decoding blocks neither the event loop nor Python's global
lock.

The process has no settings, secrets or environment variables. The process communicates only with the gateway, and ends
when the gateway ends. A body that takes too much CPU time ends the process, and the gateway starts a new one.
"""

import contextlib
import gc
import os
import resource
import signal
import socket
import sys
from pathlib import Path

import msgspec

from gateway.protocol.body import Body
from gateway.protocol.endpoints.endpoint import FORM
from gateway.protocol.endpoints.multipart import parts_of
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.errors import ClientError, InvalidField, MalformedBody
from gateway.protocol.json_bounds import MAX_OPTIONS_BYTES, check_bounds, check_fields
from gateway.protocol.splice import Places, members_of
from gateway.proxy.bodies.answer import (
    ACTING_TEXTS,
    PLACES,
    REDACTED,
    TEXTS,
    DecodeResult,
    read_question,
    refusal,
    send_answer,
)
from gateway.proxy.guardrails.reading import rewrite_texts, texts_of

MAX_PROMPT_BYTES = 2**20
"""Number of prompt bytes that routing receives, about 250,000 tokens. Of later bytes, only the number is passed."""
MEMORY_FACTOR = 10
"""Address space for decoding a body, as a multiple of the body's size. `SPARE_BYTES` is added to it."""
SPARE_BYTES = 128 * 2**20
_STATM = Path("/proc/self/statm")
NICE = 10
"""Niceness of the decoding process, so that the gateway's event loop has priority on a shared core."""


def answer_to(path: bytes, content_type: bytes, raw: bytes, *, max_values: int) -> DecodeResult:
    """Decode one request body, and return the fields or the error."""
    try:
        if path == PLACES:
            return DecodeResult(places=_places(raw))
        if path in {TEXTS, ACTING_TEXTS}:
            return DecodeResult.of_texts(texts_of(raw, acts=path == ACTING_TEXTS))
        if path == REDACTED:
            return DecodeResult(redacted=rewrite_texts(raw, msgspec.msgpack.decode(content_type, type=list[str])))
        endpoint = ENDPOINTS[path.decode()]
        if endpoint.media == FORM:
            body = endpoint.parse(raw, content_type)
            places: Places = tuple([(part.name, part.start, part.end) for part in parts_of(raw, content_type)])
        else:
            check_bounds(raw, max_values=max_values)
            body = endpoint.parse(raw, content_type)
            places = _places(raw)
            _check_places(places)
        return DecodeResult(body=list(_cut(body).fields()), places=places)
    except ClientError as error:
        return refusal(error)
    except MemoryError:
        return refusal(MalformedBody("The JSON body needs too much memory to decode. Send fewer values."))


def serve(line: socket.socket, *, cpu_s: float | None) -> None:
    """Handle decoding requests until the connection ends. Decoding a body can take *cpu_s* seconds of CPU time, or any
    time if *cpu_s* is None.
    """
    while True:
        question = read_question(line)
        if question is None:
            return
        path, content_type, raw, max_values = question
        if cpu_s is not None:
            signal.setitimer(signal.ITIMER_PROF, cpu_s)  # SIGPROF ends the process
            _bound_memory(len(raw))
        answer = answer_to(path, content_type, raw, max_values=max_values)
        del question, raw
        if cpu_s is not None:
            signal.setitimer(signal.ITIMER_PROF, 0)
        send_answer(line, answer)


def main() -> None:
    """Run the decoding process, which is started as ``python -m gateway.proxy.bodies.child DESCRIPTOR CPU_S``."""
    gc.disable()  # decoded JSON has no cycles
    gc.freeze()
    with contextlib.suppress(OSError):
        os.nice(NICE)
    with socket.socket(fileno=int(sys.argv[1])) as line, contextlib.suppress(ConnectionError):
        serve(line, cpu_s=float(sys.argv[2]))


def _places(raw: bytes) -> Places:
    return tuple(members_of(raw))


def _check_places(places: Places) -> None:
    check_fields(len(places))
    for name, start, end in places:
        if name == "stream_options" and end - start > MAX_OPTIONS_BYTES:
            raise InvalidField(f"The field '{name}' is longer than {MAX_OPTIONS_BYTES} bytes. Shorten it.", param=name)


def _cut(body: Body) -> Body:
    """Return *body* with its prompt cut to the length that routing needs."""
    left_out = len(body.prompt) - MAX_PROMPT_BYTES
    return body.changed(prompt=body.prompt[:MAX_PROMPT_BYTES], omitted_bytes=left_out) if left_out > 0 else body


def _bound_memory(size: int) -> None:
    """Limit the process's address space to the needs of *size* bytes of JSON. Without /proc, there is no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    with contextlib.suppress(OSError, ValueError):
        mapped = int(_STATM.read_bytes().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_FACTOR * size + SPARE_BYTES, hard))


if __name__ == "__main__":
    main()
