"""Sender of trace messages to an OTLP/HTTP endpoint.

OpenTelemetry's SDK is not used, because its export blocks the event loop longer (benchmarks/results/trace_export.md).
It would also send the operator's credentials from ``OTEL_EXPORTER_OTLP_HEADERS`` to the teams' destinations.
"""

import gzip
import threading
from collections.abc import Callable, Mapping

import httpx

from gateway.backends.upstream.tls import accepting_missing_identifiers

PATH = "/v1/traces"
PROTOBUF = "application/x-protobuf"
AGAIN = frozenset({429, 502, 503, 504})
"""HTTP statuses of responses after which a message can be sent again (OTLP specification, failures)."""
PAUSES_S = (1.0, 2.0, 4.0)
"""Seconds to wait before each retry, unless the response asks for a longer wait."""
LONGEST_PAUSE_S = 30.0


class Sender:
    """OTLP client for one endpoint, used by only one thread. *rejected* counts the rejected spans in a response."""

    def __init__(
        self,
        endpoint: str,
        headers: Mapping[str, str],
        *,
        timeout_s: float,
        rejected: Callable[[bytes], int],
        pauses_s: tuple[float, ...] = PAUSES_S,
    ) -> None:
        """Create a sender for *endpoint*, which is a URL without `PATH`. No I/O occurs before the first message."""
        self._url = endpoint.rstrip("/") + PATH
        self._headers = {"content-type": PROTOBUF, "content-encoding": "gzip", "user-agent": "warmgate", **headers}
        self._timeout_s = timeout_s
        self._rejected = rejected
        self._pauses_s = pauses_s
        self._client: httpx.Client | None = None

    def __call__(self, message: bytes, stop: threading.Event) -> str | None:
        """Send *message*, with retries if necessary. Return None on success, or the reason for the failure.

        Once *stop* is set, no further attempts are made.
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
        """Close the connection if it is open."""
        if self._client is not None:
            self._client.close()

    def _try(self, body: bytes) -> tuple[str | None, float | None]:
        """Send *body* once. Return the reason for a failure, and the minimum seconds before a retry, or None if a retry
        is useless.
        """
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
    """Return the number of seconds in a ``retry-after`` header, or 0 if the header contains a date."""
    return float(text) if text.isdecimal() else 0.0
