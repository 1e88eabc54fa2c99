"""Pages with teams: their limits, their keys, their spend, and what the caches saved for them."""

from collections.abc import Callable
from typing import Any, Final

from gateway.console.admin_client import AdminRefused, Json
from gateway.console.forms import Form
from gateway.console.limit_fields import LABELS, LIMITS, limits_in
from gateway.console.page import Action, Context, Done, Download, Page, View

PATH: Final = "/console/teams"
KEYS: Final = 100
"""Number of keys on one page of a team."""


async def load_all(view: View) -> Context:
    """Return all teams with their usage in a month, and with what the caches saved for them."""
    teams = await view.admin.listed("teams", most=5000)
    usage = await view.admin.get("usage", query={"group_by": "team", "month": view.query.get("month") or None})
    savings = await _savings(view)
    may_estimate = savings is not None and view.session.key.may("operator")
    return {
        "teams": teams,
        "usage": {each["team"]: each for each in usage["data"]},
        "total": usage["total"],
        "month": usage["from"][:7],
        "savings": savings,
        "models": [each["name"] for each in await view.admin.listed("models")] if may_estimate else [],
        "may_estimate": may_estimate,
        "first_day": usage["from"],
        "last_day": usage["to"],
        "limits": LIMITS,
        "may_create": view.session.key.may("owner"),
    }


async def load(view: View) -> Context:
    """Return one team with its keys, its limits and its spend in a month."""
    name, month = view.path["name"], view.query.get("month") or None
    team = await view.admin.get("teams", name)
    after = view.query.get("after") or None
    keys = await view.admin.get("keys", query={"team": name, "limit": KEYS, "after": after})
    usage = {by: await _usage(view, name, by, month) for by in ("model", "day", "key")}
    savings = await _savings(view)
    return {
        "title": f"Team {name}",
        "team": team,
        "limits": LIMITS,
        "keys": keys["data"],
        "next": keys["next"],
        "is_later": after is not None,
        "usage": usage,
        "days": usage["day"]["data"],
        "spend_by_key": {each["key"]: each["cost_usd"] for each in usage["key"]["data"]},
        "month": usage["day"]["from"][:7],
        "levels": await _levels(view, name),
        "savings": savings,
        "saved": None if savings is None else next((each for each in savings["teams"] if each["team"] == name), None),
        "may_create": view.session.key.may_manage_keys(name),
        "may_change": view.session.key.may("operator") and not team["declared"],
    }


async def _usage(view: View, team: str, by: str, month: str | None) -> Json:
    return await view.admin.get("usage", query={"team": team, "group_by": by, "month": month})


async def _savings(view: View) -> Json | None:
    """Return the estimate of what the caches saved, or None if the gateway replays no requests."""
    try:
        return await view.admin.get("savings")
    except AdminRefused as refused:
        if refused.status == 404:
            return None
        raise


async def _levels(view: View, team: str) -> list[Any]:
    """Return the limits of the team with what is left of them, or an empty list if the gateway counts no limits."""
    try:
        levels: list[Any] = (await view.admin.get("teams", team, "limits"))["data"]
    except AdminRefused as refused:
        if refused.status in (404, 503):
            return []
        raise
    return [_with_texts(each) for each in levels]


def _with_texts(level: Context) -> Context:
    """Return *level* with the texts of its amounts, and with the share that is used."""
    field, amount, left = LABELS[level["measure"]], level["amount"], level["remaining"]
    most = level["at_once"]
    return {
        **level,
        "label": field.label,
        "amount_text": field.show(amount),
        "left_text": field.show(left) if most == amount else f"{field.show(left)} of {field.show(most)} at once",
        "share": (most - left) / most if most else 1.0,
    }


async def create(view: View, form: Form) -> Done:
    """Create a team."""
    team = await view.admin.request("POST", ("teams",), body={"name": form.get("name", ""), "limits": limits_in(form)})
    return Done(location=f"{PATH}/{team['name']}", text=f"The team {team['name']} was created.")


async def change(view: View, form: Form) -> Done:
    """Change the limits of a team, or block it."""
    name = form.get("name", "")
    await view.admin.request("PATCH", ("teams", name), body={"limits": limits_in(form)})
    return Done(location=f"{PATH}/{name}", text=f"The limits of the team {name} were changed.")


async def block(view: View, form: Form) -> Done:
    """Block all keys of a team, or permit them again."""
    name, blocked = form.get("name", ""), form.get("blocked") == "true"
    await view.admin.request("PATCH", ("teams", name), body={"blocked": blocked})
    text = "All its keys are rejected." if blocked else "Its keys are accepted again."
    return Done(location=f"{PATH}/{name}", text=f"The team {name} is {'blocked' if blocked else 'active'}. {text}")


async def estimate(view: View, form: Form) -> Done:
    """Start a replay of the recorded requests of one model, which also estimates what the caches saved."""
    await view.admin.request("POST", ("what-if",), body={"model": form.get("model") or None})
    return Done(location=PATH, text="The replay has started. Reload this page when it has ended.")


def _sums(ending: str) -> Callable[[View], tuple[tuple[str, ...], Context]]:
    """Return the source of a file with the usage by team, model and day, in the format *ending*."""

    def source(view: View) -> tuple[tuple[str, ...], Context]:
        query = {name: view.query.get(name) or None for name in ("team", "month")}
        return ("usage",), {**query, "group_by": "team,model,day", "format": ending}

    return source


def _export(view: View) -> tuple[tuple[str, ...], Context]:
    return ("usage", "export"), {"team": view.path["name"], "month": view.query.get("month") or None}


PAGES: Final = (
    Page(path=PATH, title="Teams", template="teams.html", load=load_all, in_navigation=True, for_one_team=True),
    Page(path=f"{PATH}/{{name}}", title="Team", template="team.html", load=load, section=PATH, for_one_team=True),
)
DOWNLOADS: Final = (
    Download(path=f"{PATH}/{{name}}/usage.csv", source=_export),
    Download(path="/console/usage.csv", source=_sums("csv")),
    Download(path="/console/usage.json", source=_sums("json")),
)
ACTIONS: Final = (
    Action(path="/console/do/create-team", role="owner", act=create, back=PATH),
    Action(path="/console/do/estimate-savings", role="operator", act=estimate, back=PATH),
    Action(path="/console/do/limit-team", role="operator", act=change, back=PATH),
    Action(path="/console/do/block-team", role="operator", act=block, back=PATH),
)
