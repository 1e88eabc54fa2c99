"""Puts one message after the other to an OTLP/HTTP address.

httpx, and not the exporter of OpenTelemetry's SDK: that adds the headers of ``OTEL_EXPORTER_OTLP_HEADERS`` to every
destination, and would send an operator's credentials to a team's.
"""

import gzip
import threading
from collections.abc import Callable, Mapping

import httpx

from gateway.tls import accepting_missing_identifiers

PATH = "/v1/traces"
PROTOBUF = "application/x-protobuf"
AGAIN = frozenset({429, 502, 503, 504})
"""Statuses after which the same may be sent once more (OTLP specification, failures)."""
PAUSES_S = (1.0, 2.0, 4.0)
"""Before another try, where the answer does not ask for another."""
LONGEST_PAUSE_S = 30.0


class Sender:
    """Used by one thread only, and closed by it. *rejected* reads the answer to a message that was taken."""

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
        """Why it failed, and after how many seconds at least to try again; None: not at all."""
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
    """A ``retry-after`` in seconds; 0 for a date, which nobody sends here."""
    return float(text) if text.isdecimal() else 0.0
