"""Errors in the shape of SCIM (RFC 7644, section 3.12)."""

from typing import Any, Final

ERROR: Final = "urn:ietf:params:scim:api:messages:2.0:Error"


class ScimFault(Exception):
    """Raised if a request cannot be carried out. *kind* is the ``scimType`` of the error, if it has one."""

    def __init__(self, status: int, detail: str, kind: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind

    def body(self) -> dict[str, Any]:
        kind = {} if self.kind is None else {"scimType": self.kind}
        return {"schemas": [ERROR], "status": str(self.status), **kind, "detail": str(self)}
