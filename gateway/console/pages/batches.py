"""Pages with the batches of teams, and with one batch: progress, faults, files and times. Operators cancel batches."""

from typing import Any, Final
from urllib.parse import urlencode

from gateway.console.admin_client import AdminRefused
from gateway.console.forms import Form
from gateway.console.page import Action, Context, Done, Page, View

PATH: Final = "/console/batches"
ROWS: Final = 50
"""Number of batches on one page of the list."""
FAULTS: Final = 100
"""Number of faults of an input file to show."""
GOOD: Final = frozenset({"completed", "in_progress", "finalizing", "validating"})


async def load_list(view: View) -> Context:
    """Return the batches of the team in the URL, or of all teams."""
    team, after = view.query.get("team", "").strip() or None, view.query.get("after") or None
    context: Context = {"team": team, "is_first": after is None, "is_of_one_team": view.session.key.team is not None}
    try:
        page = await view.admin.get("batches", query={"team": team, "after": after, "limit": ROWS})
    except AdminRefused as refused:
        if refused.status not in (400, 404):
            raise
        is_served = refused.status != 404
        fault = refused.message if is_served else None
        return {**context, "is_served": is_served, "fault": fault, "batches": [], "older": None, "has_more": False}
    older = None if page["next"] is None else f"{PATH}?{urlencode({'team': team or '', 'after': page['next']})}"
    rows = [shown(each) for each in page["data"]]
    return {**context, "is_served": True, "fault": None, "batches": rows, "older": older, "has_more": page["has_more"]}


async def load_one(view: View) -> Context:
    """Return one batch of the team in the URL."""
    found = await view.admin.get("batches", view.path["id"], query={"team": view.query.get("team", "")})
    usage = found["usage"]
    return {
        "batch": shown(found),
        "errors": found["errors"][:FAULTS],
        "more_errors": max(0, len(found["errors"]) - FAULTS),
        "cached_share": usage["cached_tokens"] / usage["prompt_tokens"] if usage and usage["prompt_tokens"] else None,
        "may_cancel": view.session.key.may("operator"),
    }


def shown(batch: dict[str, Any]) -> dict[str, Any]:
    """Return *batch* with its address, its state as a color, and the share of its lines that have ended."""
    total = batch["total"]
    state = "bad" if batch["status"] in {"failed", "expired"} else "good" if batch["status"] in GOOD else "waiting"
    return {
        **batch,
        "address": f"{PATH}/{batch['id']}?{urlencode({'team': batch['team']})}",
        "state": state,
        "done": (batch["completed"] + batch["failed"]) / total if total else 0.0,
    }


async def cancel(view: View, form: Form) -> Done:
    """Cancel a batch of a team."""
    team, batch_id = form.get("team", ""), form.get("id", "")
    await view.admin.request("POST", ("batches", batch_id, "cancel"), query={"team": team})
    text = f"The batch {batch_id} is canceled. Lines in flight may still finish."
    return Done(location=f"{PATH}/{batch_id}?{urlencode({'team': team})}", text=text)


PAGES: Final = (
    Page(
        path=PATH,
        title="Batches",
        template="batches.html",
        load=load_list,
        in_navigation=True,
        for_one_team=True,
        live={"batches": "batches/list.html"},
        interval_s=5.0,
    ),
    Page(
        path=f"{PATH}/{{id}}",
        title="Batch",
        template="batch.html",
        load=load_one,
        section=PATH,
        for_one_team=True,
        live={"batch": "batches/one.html"},
    ),
)
ACTIONS: Final = (Action(path="/console/do/cancel-batch", role="operator", act=cancel, back=PATH),)
