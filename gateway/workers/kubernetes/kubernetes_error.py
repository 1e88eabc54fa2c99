"""Errors of requests to the Kubernetes API server."""


class KubernetesError(Exception):
    """The API server was unreachable, refused a request, or sent a malformed response. The message has no
    credentials.
    """

    def __init__(self, text: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        """*status* is the HTTP status, or the code of a ``Status`` object in a watch. It is None if there was no
        response.
        """
        super().__init__(text)
        self.status = status
        self.retry_after_s = retry_after_s
        """Retry delay that the API server requested, in seconds, or None if it requested none."""


class VersionExpired(KubernetesError):
    """Error 410: the API server no longer knows the resource version. The client must list all objects again."""

    def __init__(self) -> None:
        super().__init__("the version is too old (410)", status=410)
