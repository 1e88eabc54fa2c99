"""Settings of the command ``warmgate picker``, which serves Envoy instead of callers."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from gateway.protocol.field_types import Group, rule


def _check_listen(value: str) -> str:
    """Return *value* if it is an address and a port, such as ``0.0.0.0:9002`` or ``[::]:9002``."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[0-9A-Za-z.-]+):([0-9]{1,5})", value)
    if found is None or int(found[2]) > 65535:
        raise rule("the value must be an address and a port, e.g. 0.0.0.0:9002")
    return value


class PickerSettings(Group):
    listen: Annotated[str, AfterValidator(_check_listen)] = Field(
        default="127.0.0.1:9002",
        description="address and port of the gRPC server, which Envoy's filter ext_proc calls. Use 0.0.0.0:9002 for "
        "all IPv4 interfaces, and port 0 for any free port.",
    )
    max_fallbacks: int = Field(
        default=2,
        ge=0,
        le=16,
        description="maximum number of further workers that Envoy gets for its retries, in the order of the routing "
        "strategy",
    )
    conformance: bool = Field(
        default=False,
        description="let callers choose workers with the header test-epp-endpoint-selection, and name the worker in "
        "the header x-conformance-test-served-endpoint. Only for tests.",
    )
