"""Page with one API key, and the actions that create, change, rotate and delete keys."""

import math
from typing import Final

from gateway.console.admin_client import AdminRefused
from gateway.console.forms import Form
from gateway.console.limit_fields import LIMITS, limits_in
from gateway.console.page import Action, Context, Done, Page, Shown, View

PATH: Final = "/console/keys"
TEAMS: Final = "/console/teams"


async def load(view: View) -> Context:
    """Return one key with its usage by model in the current month."""
    key_id = view.path["id"]
    key = await view.admin.get("keys", key_id)
    usage = await view.admin.get("usage", query={"key": key_id, "group_by": "model"})
    return {
        "title": f"Key {key_id}",
        "each": key,
        "limits": LIMITS,
        "usage": usage,
        "may_change": view.session.key.may("operator") and not key["declared"],
        "may_rotate": view.session.key.may_manage_keys(key["team"]) and not key["declared"],
    }


async def create(view: View, form: Form) -> Shown:
    """Create a key and show its secret once. The same form sent again shows the same secret."""
    body: Context = {"team": form.get("team", ""), "limits": limits_in(form)}
    body |= {name: form[name] for name in ("id", "project") if form.get(name)}
    key = await view.admin.request("POST", ("keys",), body=body, idempotency_key=_once(form))
    return _secret(key, f"The key {key['id']} was created")


async def rotate(view: View, form: Form) -> Shown:
    """Give a key a new secret and show it once."""
    path, body = ("keys", form.get("id", ""), "rotate"), {"grace_s": _seconds(form.get("grace_s", ""))}
    key = await view.admin.request("POST", path, body=body, idempotency_key=_once(form))
    return _secret(key, f"The key {key['id']} has a new secret")


async def change(view: View, form: Form) -> Done:
    """Change the limits of a key."""
    key_id = form.get("id", "")
    await view.admin.request("PATCH", ("keys", key_id), body={"limits": limits_in(form)})
    return Done(location=f"{PATH}/{key_id}", text=f"The limits of the key {key_id} were changed.")


async def block(view: View, form: Form) -> Done:
    """Block a key, or permit it again."""
    key_id, blocked = form.get("id", ""), form.get("blocked") == "true"
    await view.admin.request("PATCH", ("keys", key_id), body={"blocked": blocked})
    return Done(location=f"{PATH}/{key_id}", text=f"The key {key_id} is {'blocked' if blocked else 'active'}.")


async def delete(view: View, form: Form) -> Done:
    """Delete a key. All gateways reject it within a second."""
    key_id = form.get("id", "")
    team = (await view.admin.get("keys", key_id))["team"]
    await view.admin.request("DELETE", ("keys", key_id))
    return Done(location=f"{TEAMS}/{team}", text=f"The key {key_id} was deleted. Gateways reject it within a second.")


def _secret(key: Context, title: str) -> Shown:
    return Shown(title=title, template="secret.html", context={"each": key})


def _once(form: Form) -> str | None:
    """Return the random value of the form, with which a repeated request has no further effect."""
    return form.get("once") or None


def _seconds(text: str) -> float:
    try:
        value = float(text or 0)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise AdminRefused(400, "The grace period must be a number of seconds.")
    return value


PAGES: Final = (
    Page(path=f"{PATH}/{{id}}", title="Key", template="key.html", load=load, section=TEAMS, for_one_team=True),
)
ACTIONS: Final = (
    Action(path="/console/do/create-key", role="owner", for_team_owner=True, act=create, back=TEAMS),
    Action(path="/console/do/rotate-key", role="owner", for_team_owner=True, act=rotate, back=TEAMS),
    Action(path="/console/do/limit-key", role="operator", act=change, back=TEAMS),
    Action(path="/console/do/block-key", role="operator", act=block, back=TEAMS),
    Action(path="/console/do/delete-key", role="owner", for_team_owner=True, act=delete, back=TEAMS),
)
