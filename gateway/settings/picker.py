"""Settings of the command ``warmgate picker``, which serves Envoy instead of callers."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from gateway.protocol.contradictions import Contradiction
from gateway.protocol.field_types import Group, rule
from gateway.settings.rules import Count, FileName, unless_contradictory


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
    certificate_file: FileName | None = Field(
        default=None,
        description="file with the certificate for connections over TLS, followed by its chain, in PEM. The file is "
        "read again after it has changed. Null means a certificate that the picker makes for itself, which clients "
        "cannot check.",
    )
    key_file: FileName | None = Field(default=None, description="file with the private key of certificate_file, in PEM")
    max_buffered_bytes: Count = Field(
        default=2**20,
        description="maximum size in bytes of a request body that Envoy keeps in memory in the body mode BUFFERED, as "
        "its setting per_connection_buffer_limit_bytes says. Requests that announce a longer body get status 413 at "
        "once, because Envoy would let them wait until the client gives up. Other body modes have no such limit.",
    )
    max_fallbacks: int = Field(
        default=2,
        ge=0,
        le=16,
        description="maximum number of further workers that Envoy gets for its retries, in the order of the routing "
        "strategy",
    )
    endpoint_scores: bool = Field(
        default=False,
        description="send Envoy the scores of the workers among which the picker has chosen, as llm-d does: the "
        "metadata x-gateway-destination-endpoint-scores of the namespace envoy.lb maps at most 64 endpoints to "
        "1 / (1 + cost in seconds). Filters of Envoy can log them or decide by them.",
    )
    session_header_decides: bool = Field(
        default=False,
        description="answer Envoy as soon as it has sent the headers of a request if a session header alone decides: "
        "the model has the strategy session and the name that its workers use, and is the only one or named in the "
        "header x-gateway-model-name. The body then reaches the worker while it arrives. Only for the body mode "
        "FULL_DUPLEX_STREAMED.",
    )
    conformance: bool = Field(
        default=False,
        description="let callers choose workers with the header test-epp-endpoint-selection, and name the worker that "
        "has answered in the header x-conformance-test-served-endpoint, and the chosen one in "
        "x-conformance-test-selected-endpoint. Only for tests.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = []
        if self.certificate_file is not None and self.key_file is None:
            found.append(Contradiction(("key_file",), "is required with certificate_file"))
        if self.key_file is not None and self.certificate_file is None:
            found.append(Contradiction(("certificate_file",), "is required with key_file"))
        return unless_contradictory(self, found)
