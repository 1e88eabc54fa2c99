import json

import pytest

from gateway.simulator.errors import ApiError


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (502, "InternalServerError"),
        (503, "ServiceUnavailableError"),
    ],
)
def test_an_error_in_the_shape_of_vllm(status: int, kind: str) -> None:
    """The code is the HTTP status."""
    body = json.loads(ApiError(status, "no", param="n").to_body())

    assert {"error": {"message": "no", "type": kind, "param": "n", "code": status}} == body
