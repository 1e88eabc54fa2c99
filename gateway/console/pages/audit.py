"""Page with the audit log: who changed what, and when."""

from typing import Any, Final

from gateway.console.page import Context, Page, View

PATH: Final = "/console/audit"
LENGTH: Final = 50
"""Number of entries on one page."""


async def load(view: View) -> Context:
    """Return one page of the audit log, latest entries first, with the changed fields of each entry."""
    page = await view.admin.get("audit", query={"limit": LENGTH, "after": view.query.get("after") or None})
    entries = [{**entry, "changes": changes(entry["before"] or {}, entry["after"] or {})} for entry in page["data"]]
    return {"entries": entries, "next": page["next"], "is_first": not view.query.get("after")}


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return name, former value and new value of each field that differs. A missing field has the value None."""
    names = dict.fromkeys([*before, *after])
    found = [(name, before.get(name), after.get(name)) for name in names]
    return [(name, old, new) for name, old, new in found if old != new]


PAGES: Final = (Page(path=PATH, title="Audit log", template="audit.html", load=load, in_navigation=True),)
