"""Pages with the latest requests, and with the life of one request: phases, candidates, attempts, tokens and cost."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from gateway.console.admin_client import AdminRefused
from gateway.console.page import Context, Page, View

PATH: Final = "/console/requests"
ROWS: Final = 50
"""Number of requests on one page of the list."""
FILTERS: Final = ("team", "model", "worker", "status", "error", "session", "min_duration_s", "since")
"""Query parameters of the list, which the admin API has as well."""
STATUSES: Final = (("", "any"), ("2xx", "2xx answered"), ("4xx", "4xx refused"), ("5xx", "5xx failed"))
REASONS: Final[Mapping[str, str]] = {
    "hit": "No candidate had more of the prompt in its cache.",
    "spread": "Another candidate had more of the prompt in its cache, but cost more.",
    "cold": "No candidate had any block of the prompt in its cache.",
    "none": "No worker could take the request.",
}


async def load_list(view: View) -> Context:
    """Return the latest requests that match the filters in the URL."""
    asked = {name: view.query[name].strip() for name in FILTERS if view.query.get(name, "").strip()}
    context: Context = {"filters": asked, "statuses": STATUSES, "fault": None, "requests": [], "older": None}
    after = view.query.get("after")
    context["is_first"] = after is None
    context["first"] = _address(asked)
    try:
        page = await view.admin.get("requests", query={**asked, "limit": ROWS, "after": after})
    except AdminRefused as refused:
        if refused.status not in (400, 404):
            raise
        context["fault"] = refused.message
        return context
    context["requests"] = page["data"]
    if page["next"] is not None:
        context["older"] = _address({**asked, "after": page["next"]})
    return context


async def load_one(view: View) -> Context:
    """Return one request with everything that is known about it."""
    found = await view.admin.get("requests", view.path["id"])
    phases, candidates = found["phases"], found["candidates"]
    return {
        "request": found,
        "why": REASONS.get(found["reason"] or "", ""),
        "phases": _with_bars(phases, found["duration_s"]),
        "most_s": max((each["cost_s"] for each in candidates), default=0.0),
        "not_listed": found["candidate_count"] - len(candidates),
    }


def _with_bars(phases: list[dict[str, Any]], duration_s: float) -> list[dict[str, Any]]:
    """Return *phases* with the place of each one in a bar of 100 units for the whole request."""
    whole_s = max([duration_s, 1e-6, *(each["began_s"] + (each["duration_s"] or 0.0) for each in phases)])
    return [
        {
            **each,
            "x": round(100.0 * max(0.0, each["began_s"]) / whole_s, 2),
            "width": round(max(0.5, 100.0 * (each["duration_s"] or 0.0) / whole_s), 2),
        }
        for each in phases
    ]


def _address(query: Mapping[str, str]) -> str:
    return f"{PATH}?{urlencode(query)}" if query else PATH


PAGES: Final = (
    Page(
        path=PATH,
        title="Requests",
        template="requests.html",
        load=load_list,
        in_navigation=True,
        for_one_team=True,
        live={"requests": "requests/list.html"},
    ),
    Page(
        path=f"{PATH}/{{id:path}}",  # callers choose ids, and an id can contain slashes
        title="Request",
        template="request.html",
        load=load_one,
        section=PATH,
        for_one_team=True,
    ),
)
