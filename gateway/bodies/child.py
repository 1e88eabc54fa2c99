"""The process that decodes large bodies, so that neither the event loop nor Python's lock is held meanwhile.

It knows no setting, no secret and no environment variable, talks to the gateway alone, and ends with it. A body that
takes too much processor time ends this process, and the gateway starts another.
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

from gateway.bodies.answer import ACTING_TEXTS, PLACES, TEXTS, TOLD, Answer, read_question, refusal, send_answer
from gateway.bodies.bounds import MAX_OPTIONS_BYTES, check_fields, check_shape
from gateway.body import Body
from gateway.endpoints.endpoint import FORM
from gateway.endpoints.multipart import parts_of
from gateway.endpoints.table import ENDPOINTS
from gateway.errors import ClientError, InvalidField, MalformedBody
from gateway.guardrails.reading import texts_of, told_of
from gateway.splice import Places, members_of

MAX_PROMPT_BYTES = 2**20
"""Of the prompt that routing gets: 250,000 tokens. What follows counts for the length only."""
MEMORY_FACTOR = 10
"""Address space that one body may take, as a multiple of its size, beside `SPARE_BYTES`: more than is ever used."""
SPARE_BYTES = 128 * 2**20
_STATM = Path("/proc/self/statm")
NICE = 10
"""Decoding yields to the event loop where they share a core."""


def answer_to(path: bytes, content_type: bytes, raw: bytes, *, max_values: int) -> Answer:
    """What the gateway is to know of one body."""
    try:
        if path == PLACES:
            return Answer(places=_places(raw))
        if path in {TEXTS, ACTING_TEXTS}:
            return Answer.of_texts(texts_of(raw, acts=path == ACTING_TEXTS))
        if path == TOLD:
            return Answer(told=told_of(raw, msgspec.msgpack.decode(content_type, type=list[str])))
        endpoint = ENDPOINTS[path.decode()]
        if endpoint.media == FORM:
            body = endpoint.parse(raw, content_type)
            places: Places = tuple([(part.name, part.start, part.end) for part in parts_of(raw, content_type)])
        else:
            check_shape(raw, max_values=max_values)
            body = endpoint.parse(raw, content_type)
            places = _places(raw)
            _check_places(places)
        return Answer(body=list(_cut(body).fields()), places=places)
    except ClientError as error:
        return refusal(error)
    except MemoryError:
        return refusal(MalformedBody("The JSON body takes too much memory to decode. Send fewer values"))


def serve(line: socket.socket, *, cpu_s: float | None) -> None:
    """Answer until the line ends. *cpu_s* is the processor time that one body may take; None: any."""
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
    """``python -m gateway.bodies.child DESCRIPTOR CPU_S``, from `gateway.bodies.reader`."""
    gc.disable()  # what JSON becomes has no cycles
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
            raise InvalidField(f"'{name}' is longer than {MAX_OPTIONS_BYTES} bytes", param=name)


def _cut(body: Body) -> Body:
    """*body* with no more of its prompt than routing uses."""
    left_out = len(body.prompt) - MAX_PROMPT_BYTES
    return body.changed(prompt=body.prompt[:MAX_PROMPT_BYTES], omitted_bytes=left_out) if left_out > 0 else body


def _bound_memory(size: int) -> None:
    """Let *size* bytes of JSON take so much more than is taken already; without /proc, anything."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    with contextlib.suppress(OSError, ValueError):
        mapped = int(_STATM.read_bytes().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_FACTOR * size + SPARE_BYTES, hard))


if __name__ == "__main__":
    main()
