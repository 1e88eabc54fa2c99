"""Errors between the gateway and the API server of Kubernetes."""


class KubernetesError(Exception):
    """The API server was not reached, refused, or sent a malformed answer. The text holds no credentials."""

    def __init__(self, text: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        """*status* is the HTTP status, or that of a ``Status`` within a watch; None: no answer."""
        super().__init__(text)
        self.status = status
        self.retry_after_s = retry_after_s
        """Delay that the server asks for; None: it did not say."""


class VersionExpired(KubernetesError):
    """410: the version to continue from is no longer known; everything has to be listed again."""

    def __init__(self) -> None:
        super().__init__("the version is too old (410)", status=410)
