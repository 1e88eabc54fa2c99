"""What can go wrong between the gateway and the API server of Kubernetes."""


class ApiError(Exception):
    """It was not reached, refused, or said something that cannot be understood. The text holds no credentials."""

    def __init__(self, text: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        """*status* is that of HTTP, or of a ``Status`` within a watch; None: there was no answer."""
        super().__init__(text)
        self.status = status
        self.retry_after_s = retry_after_s
        """When it wants to be asked again; None: it did not say."""


class VersionExpired(ApiError):
    """410: what is to be gone on from is no longer known; everything has to be listed anew."""

    def __init__(self) -> None:
        super().__init__("the version is too old (410)", status=410)
