"""Errors of requests to the Kubernetes API server."""


class KubernetesError(Exception):
    """Raised if the API server is unreachable, refuses a request, or sends a malformed response. The message has no
    credentials.
    """

    def __init__(self, text: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        """Create the error. *status* is the HTTP status, or the code of a ``Status`` object in a watch, or None without
        a response.
        """
        super().__init__(text)
        self.status = status
        self.retry_after_s = retry_after_s
        """Retry delay in seconds that the API server requested, or None."""


class VersionExpired(KubernetesError):
    """Raised for status 410: the resource version is too old. The client must list all objects again."""

    def __init__(self) -> None:
        super().__init__("the version is too old (410)", status=410)
