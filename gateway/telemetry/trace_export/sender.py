"""Sends messages to an OTLP/HTTP address.

OpenTelemetry's SDK is not used: its export holds the event loop for longer (benchmarks/results/trace_export.md), and it
sends the headers of ``OTEL_EXPORTER_OTLP_HEADERS``, an operator's credentials, to the destinations of teams too.
"""

import gzip
import threading
from collections.abc import Callable, Mapping

import httpx

from gateway.backends.upstream.tls import accepting_missing_identifiers

PATH = "/v1/traces"
PROTOBUF = "application/x-protobuf"
AGAIN = frozenset({429, 502, 503, 504})
"""Statuses after which a message may be sent again (OTLP specification, failures)."""
PAUSES_S = (1.0, 2.0, 4.0)
"""Pauses before the next tries, unless the answer asks for longer ones."""
LONGEST_PAUSE_S = 30.0


class Sender:
    """Used and closed by one thread. *rejected* counts rejected spans in the answer to an accepted message."""

    def __init__(
        self,
        endpoint: str,
        headers: Mapping[str, str],
        *,
        timeout_s: float,
        rejected: Callable[[bytes], int],
        pauses_s: tuple[float, ...] = PAUSES_S,
    ) -> None:
        """*endpoint* is the address without `PATH`. No I/O happens before the first message."""
        self._url = endpoint.rstrip("/") + PATH
        self._headers = {"content-type": PROTOBUF, "content-encoding": "gzip", "user-agent": "warmgate", **headers}
        self._timeout_s = timeout_s
        self._rejected = rejected
        self._pauses_s = pauses_s
        self._client: httpx.Client | None = None

    def __call__(self, message: bytes, stop: threading.Event) -> str | None:
        """Send *message*, several times if need be; why it did not arrive, None if it did.

        Once *stop* is set no other try is made.
        """
        body = gzip.compress(message, 3)
        for pause_s in (*self._pauses_s, None):
            why, wanted_s = self._try(body)
            if wanted_s is None or pause_s is None:
                return why
            if stop.wait(min(max(pause_s, wanted_s), LONGEST_PAUSE_S)):
                return why
        return None

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._client is not None:
            self._client.close()

    def _try(self, body: bytes) -> tuple[str | None, float | None]:
        """Return why it failed, and the least seconds before the next try; None: do not try again."""
        if self._client is None:  # here, as it reads certificates: some 50 ms that the event loop need not wait for
            tls = accepting_missing_identifiers(httpx.create_ssl_context())
            self._client = httpx.Client(timeout=self._timeout_s, follow_redirects=False, verify=tls)
        try:
            answer = self._client.post(self._url, content=body, headers=self._headers)
        except httpx.TransportError as error:
            return type(error).__name__, 0.0
        except httpx.HTTPError as error:
            return type(error).__name__, None
        if answer.status_code in AGAIN:
            return f"HTTP {answer.status_code}", _seconds(answer.headers.get("retry-after", ""))
        if not answer.is_success:
            return f"HTTP {answer.status_code}", None
        rejected = self._rejected(answer.content)
        return (f"{rejected} spans were rejected" if rejected else None), None


def _seconds(text: str) -> float:
    """Return the seconds of a ``retry-after``; 0 for a date."""
    return float(text) if text.isdecimal() else 0.0
