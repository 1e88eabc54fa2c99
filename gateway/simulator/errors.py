"""A refusal in the shape vLLM gives it: ``{"error": {"message", "type", "param", "code"}}``, code = HTTP status."""

import msgspec

_TYPES = {404: "NotFoundError", 429: "RateLimitError", 500: "InternalServerError", 503: "ServiceUnavailableError"}


class ApiError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param

    def to_body(self) -> bytes:
        kind = _TYPES.get(self.status, "BadRequestError" if self.status < 500 else "InternalServerError")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.status}
        return msgspec.json.encode({"error": error})
