"""Decodes request bodies: small and simple ones at once, all others in processes of their own.

A process and not a thread: decoding holds Python's lock for as long as it takes, 15 ms for 8 MiB of plain text. The
processes are started when the first body needs one, and end when the gateway does.
"""

import asyncio
import json
import logging
import queue
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from gateway.bodies import answer as messages
from gateway.bodies.answer import ACTING_TEXTS, TEXTS, TOLD, Answer
from gateway.bodies.bounds import is_light
from gateway.body import Body
from gateway.endpoints.endpoint import Endpoint
from gateway.errors import GatewayError, MalformedBody, Stopping
from gateway.guardrails.filter import Text
from gateway.splice import Places

READERS: Final = 2
"""Processes at most: so a body that takes long does not hold up all others. Each has 40 MB."""
MAX_WAIT_S: Final = 30.0
"""The longest a process may take by the clock; its processor time is bounded more closely."""

_log = logging.getLogger(__name__)

_ENVIRONMENT: Final = {"MALLOC_MMAP_THRESHOLD_": str(2**18)}
"""Of the processes: no secret. glibc's malloc gives a large block back to the system as soon as it is free."""
_CHILD = "import sys, json; sys.path[:] = json.loads(sys.argv.pop()); from gateway.bodies.child import main; main()"


class BodyReader:
    """Reads what endpoints are sent."""

    def __init__(self, *, max_values: int, max_cpu_s: float, max_wait_s: float = MAX_WAIT_S) -> None:
        self._max_values = max_values
        self._max_cpu_s = max_cpu_s
        self._max_wait_s = max_wait_s
        self._executor = ThreadPoolExecutor(READERS, thread_name_prefix="bodies")
        self._idle: queue.SimpleQueue[Reader] = queue.SimpleQueue()
        self._readers: list[Reader] = []

    async def read(self, endpoint: Endpoint, raw: bytes, content_type: bytes) -> Body:
        """What routing must know of the body *raw*, which came to *endpoint* as *content_type*.

        Raises:
            ClientError: as `Endpoint.parse`, or a bound is exceeded; the message names it.
        """
        if is_light(raw):
            return endpoint.parse(raw, content_type)
        body = (await self._asked(endpoint.path.encode(), raw, content_type)).to_body()
        assert body is not None, "an endpoint's body was asked for"
        return body

    async def places(self, raw: bytes) -> Places | None:
        """Where the fields of *raw* are, a JSON body that was read before and changed since."""
        return (await self._asked(b"", raw, b"")).places

    async def texts(self, raw: bytes, *, acts: bool) -> list[Text]:
        """As `gateway.guardrails.reading.RequestReader.texts`, of a body that was read before."""

        def texts() -> list[Text]:
            return self._ask(ACTING_TEXTS if acts else TEXTS, raw, b"").to_texts()

        return await asyncio.get_running_loop().run_in_executor(self._executor, texts)

    async def told(self, raw: bytes, said: Sequence[str]) -> bytes:
        """As `gateway.guardrails.reading.RequestReader.told`."""

        def told() -> bytes:
            return self._ask(TOLD, raw, msgspec.msgpack.encode(said)).to_told()

        return await asyncio.get_running_loop().run_in_executor(self._executor, told)

    def rss_pids(self) -> list[int]:
        """The processes that are there, whose memory is the gateway's."""
        return [reader.pid for reader in self._readers if reader.pid]

    def close(self) -> None:
        """End all processes. What they are at is not waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for reader in self._readers:
            reader.kill()
        self._executor.shutdown()  # whoever asks one of them has seen its end
        for reader in self._readers:
            reader.stop()

    async def _asked(self, path: bytes, raw: bytes, content_type: bytes) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._ask, path, raw, content_type)

    def _ask(self, path: bytes, raw: bytes, content_type: bytes) -> Answer:
        reader = self._taken()
        try:
            return reader.ask(path, raw, content_type, max_values=self._max_values)
        finally:
            self._idle.put(reader)

    def _taken(self) -> "Reader":
        """One that nobody asks; there are as many as threads."""
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            reader = Reader(max_cpu_s=self._max_cpu_s, max_wait_s=self._max_wait_s)
            self._readers.append(reader)
            return reader


class Reader:
    """One process that decodes bodies, started when it is asked and there is none. For one thread at a time."""

    def __init__(self, *, max_cpu_s: float, max_wait_s: float) -> None:
        self._max_cpu_s = max_cpu_s
        self._max_wait_s = max_wait_s
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._is_closing = False

    @property
    def pid(self) -> int:
        """Its process, 0 if there is none."""
        process = self._process
        return 0 if process is None else process.pid

    def ask(self, path: bytes, raw: bytes, content_type: bytes, *, max_values: int) -> Answer:
        """What the process makes of *raw*.

        Raises:
            MalformedBody: it takes too long.
            GatewayError: the process ended, or cannot be started.
        """
        line = self._line or self._start()
        try:
            messages.send_question(line, path, content_type, raw, max_values=max_values)
            answer = messages.read_answer(line)
        except TimeoutError:
            self.stop()
            raise self._too_slow() from None
        except OSError:
            answer = None
        if answer is None:
            raise self._ended()
        return answer

    def kill(self) -> None:
        """End the process for good, while another thread may be asking it."""
        self._is_closing = True
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """End the process at once; the next question starts another."""
        process, self._process = self._process, None
        line, self._line = self._line, None
        if line is not None:
            line.close()
        if process is not None:
            process.kill()
            process.wait()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), repr(self._max_cpu_s), json.dumps(sys.path)]
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603  # nothing in it comes from outside
                    [sys.executable, "-I", "-c", _CHILD, *arguments],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=_ENVIRONMENT,
                    process_group=0,  # signals at the terminal are for the gateway
                )
        except OSError as error:
            ours.close()
            _log.error("no process to decode bodies can be started: %s", error.strerror)
            raise _failed() from None
        ours.settimeout(self._max_wait_s)
        self._line = ours
        return ours

    def _ended(self) -> GatewayError:
        """Why the process ended by itself."""
        process = self._process
        code = None if process is None else process.wait(self._max_wait_s)
        self.stop()
        if code == -signal.SIGPROF:
            return self._too_slow()
        if self._is_closing:
            return Stopping("The gateway is stopping, ask again", retry_after_s=1)
        _log.error("a process that decodes bodies ended with %s", code)
        return _failed()

    def _too_slow(self) -> MalformedBody:
        return MalformedBody(
            f"The body takes more than {self._max_cpu_s:g} s to decode (server.max_body_cpu_s). Send a simpler one"
        )


def _failed() -> GatewayError:
    return GatewayError("The gateway failed to read this body")
