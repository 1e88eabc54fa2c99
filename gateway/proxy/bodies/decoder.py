"""Decode request bodies. Small and simple bodies are decoded on the event loop, and all others in separate processes.

A thread would hold Python's global lock for the whole time, which is 15 ms for 8 MiB of plain text. A decoder process
starts when a body first needs one, and ends with the gateway.
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

from gateway.protocol.body import Body
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.errors import GatewayError, MalformedBody, Stopping
from gateway.protocol.json_bounds import (
    INLINE_MARKS,
    OFF_LOOP_BYTES,
    has_few_values,
    is_light,
    marks,
    without_escapes,
)
from gateway.protocol.splice import Places
from gateway.proxy.bodies import answer as messages
from gateway.proxy.bodies.answer import ACTING_TEXTS, REDACTED, TEXTS, DecodeResult
from gateway.proxy.guardrails.filter import Text
from gateway.proxy.incoming import YIELD_BYTES

PROCESSES: Final = 2
"""Maximum number of body decoder processes. With two, a slow body does not delay all others. Each process uses 40 MB of
memory.
"""
MAX_WAIT_S: Final = 30.0
"""Maximum seconds for decoding one body. A separate, lower limit applies to CPU time."""

_log = logging.getLogger(__name__)

_ENVIRONMENT: Final = {"MALLOC_MMAP_THRESHOLD_": str(2**18)}
"""Environment of the body decoder processes, without secrets. It makes glibc's malloc return large blocks as soon as
they are free.
"""
_CHILD = """
import sys, json
sys.path[:] = json.loads(sys.argv.pop())
from gateway.proxy.bodies.child import main
main()
"""


class BodyDecoder:
    """Decoder for the bodies of all requests."""

    def __init__(self, *, max_values: int, max_cpu_s: float, max_wait_s: float = MAX_WAIT_S) -> None:
        self._max_values = max_values
        self._max_cpu_s = max_cpu_s
        self._max_wait_s = max_wait_s
        self._executor = ThreadPoolExecutor(PROCESSES, thread_name_prefix="bodies")
        self._idle: queue.SimpleQueue[DecoderProcess] = queue.SimpleQueue()
        self._readers: list[DecoderProcess] = []

    async def read(self, endpoint: Endpoint, raw: bytes, content_type: bytes) -> Body:
        """Return the fields of *raw*, a request body of type *content_type* for *endpoint*.

        Raises:
            ClientError: if `Endpoint.parse` rejects the body, or the body exceeds a limit.
        """
        if await _is_light(raw):
            if len(raw) <= YIELD_BYTES:
                return endpoint.parse(raw, content_type)
            await asyncio.sleep(0)
            parsed = endpoint.parse(raw, content_type)
            await asyncio.sleep(0)
            return parsed
        body = (await self._asked(endpoint.path.encode(), raw, content_type)).to_body()
        assert body is not None, "the answer has no body"
        return body

    async def places(self, raw: bytes) -> Places | None:
        """Return the positions of the fields of *raw*, a JSON request body that changed after it was decoded."""
        return (await self._asked(b"", raw, b"")).places

    async def texts(self, raw: bytes, *, acts: bool) -> list[Text]:
        """Return the texts in *raw* that guardrails check (see `RequestReader.texts` in
        `gateway.proxy.guardrails.reading`).
        """

        def texts() -> list[Text]:
            return self._ask(ACTING_TEXTS if acts else TEXTS, raw, b"").to_texts()

        return await asyncio.get_running_loop().run_in_executor(self._executor, texts)

    async def rewritten(self, raw: bytes, said: Sequence[str]) -> bytes:
        """Return *raw* with replaced texts (see `RequestReader.rewritten` in `gateway.proxy.guardrails.reading`)."""

        def rewrite() -> bytes:
            return self._ask(REDACTED, raw, msgspec.msgpack.encode(said)).to_redacted()

        return await asyncio.get_running_loop().run_in_executor(self._executor, rewrite)

    def rss_pids(self) -> list[int]:
        """Return the ids of the body decoder processes, whose memory counts as the gateway's memory."""
        return [reader.pid for reader in self._readers if reader.pid]

    def close(self) -> None:
        """End all body decoder processes at once."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for reader in self._readers:
            reader.kill()
        self._executor.shutdown()  # threads that asked a process have seen its end
        for reader in self._readers:
            reader.stop()

    async def _asked(self, path: bytes, raw: bytes, content_type: bytes) -> DecodeResult:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._ask, path, raw, content_type)

    def _ask(self, path: bytes, raw: bytes, content_type: bytes) -> DecodeResult:
        reader = self._idle_process()
        try:
            return reader.ask(path, raw, content_type, max_values=self._max_values)
        finally:
            self._idle.put(reader)

    def _idle_process(self) -> "DecoderProcess":
        """Return an idle body decoder process. Create a process if needed. There are at most as many processes as
        threads.
        """
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            reader = DecoderProcess(max_cpu_s=self._max_cpu_s, max_wait_s=self._max_wait_s)
            self._readers.append(reader)
            return reader


async def _is_light(raw: bytes) -> bool:
    """Return `is_light` of *raw*. The checks of a long body take several turns of the event loop, of a millisecond
    each.
    """
    if not YIELD_BYTES < len(raw) <= OFF_LOOP_BYTES:
        return is_light(raw)
    if marks(raw) <= INLINE_MARKS:
        return True
    await asyncio.sleep(0)
    plain = without_escapes(raw)
    await asyncio.sleep(0)
    return plain is not None and has_few_values(plain)


class DecoderProcess:
    """Process that decodes request bodies. It starts with the first body, and serves one thread at a time."""

    def __init__(self, *, max_cpu_s: float, max_wait_s: float) -> None:
        self._max_cpu_s = max_cpu_s
        self._max_wait_s = max_wait_s
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._is_closing = False

    @property
    def pid(self) -> int:
        """Process id, or 0 if the process is not running."""
        process = self._process
        return 0 if process is None else process.pid

    def ask(self, path: bytes, raw: bytes, content_type: bytes, *, max_values: int) -> DecodeResult:
        """Send the body *raw* to the decoder process and return the result.

        Raises:
            MalformedBody: if decoding the body takes too long.
            GatewayError: if the process ended or cannot be started.
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
        """End the decoder process permanently, even while another thread waits for it."""
        self._is_closing = True
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """End the decoder process now. The next body to decode starts a new process."""
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
                self._process = subprocess.Popen(  # noqa: S603  # no argument comes from outside
                    [sys.executable, "-I", "-c", _CHILD, *arguments],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=_ENVIRONMENT,
                    process_group=0,  # signals of the terminal go to the gateway only
                )
        except OSError as error:
            ours.close()
            _log.error("a body decoder process could not be started: %s", error.strerror)
            raise _failed() from None
        ours.settimeout(self._max_wait_s)
        self._line = ours
        return ours

    def _ended(self) -> GatewayError:
        """Return the error for a body decoder process that ended unexpectedly."""
        process = self._process
        code = None if process is None else process.wait(self._max_wait_s)
        self.stop()
        if code == -signal.SIGPROF:
            return self._too_slow()
        if self._is_closing:
            return Stopping("The gateway is stopping. Retry the request.", retry_after_s=1)
        _log.error("a body decoder process ended unexpectedly with exit code %s", code)
        return _failed()

    def _too_slow(self) -> MalformedBody:
        return MalformedBody(
            f"The request body takes more than {self._max_cpu_s:g} s to decode (server.max_body_cpu_s). "
            "Send a simpler body."
        )


def _failed() -> GatewayError:
    return GatewayError("The gateway failed to read the request body because of an internal error.")
