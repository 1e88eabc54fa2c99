"""Page that replays recorded requests, or an uploaded trace, with other settings."""

from typing import Any, Final
from urllib.parse import urlencode

from gateway.console.admin_client import AdminRefused, Json
from gateway.console.forms import Form
from gateway.console.page import Action, Context, Done, Page, View
from routing.strategies import NAMES

PATH: Final = "/console/what-if"
MINUTES: Final = ("5", "15", "30", "60")
"""Lengths of the past that the form offers, as far as shapes are kept."""
ALTERNATIVES: Final = ("1", "2", "3", "4")
"""Numbers of the alternatives in the form, which are parts of the names of their fields."""
FIRST: Final = {"strategy-1": "round_robin"}
"""Alternatives in the form at first."""
EVENTS: Final = (("", "as now"), ("yes", "sent"), ("no", "not sent"))
MAX_TRACE_BYTES: Final = 7 * 2**20
"""Maximum size of an uploaded trace. The admin API accepts bodies of 8 MiB, in which quotation marks are longer."""
UNAVAILABLE: Final[Json] = {"recording": None, "status": "idle", "id": None}
"""State of a gateway without replays."""


async def load(view: View) -> Context:
    """Return the form, and the replay that the URL names or else the latest one."""
    asked = view.query.get("replay") or None
    may_start = view.session.key.may("operator")
    try:
        state = await _state(view, asked)
        kept = (await view.admin.get("what-if", "replays"))["data"]
    except AdminRefused as refused:
        if refused.status != 404:
            raise
        state, kept = UNAVAILABLE, []
    models = await view.admin.listed("models") if may_start else []
    return {
        "recording": state["recording"],
        "is_forgotten": asked is not None and state["id"] != asked,
        "replay": state if state["id"] is not None else None,
        "rows": rows(state.get("result")),
        "saved": saved(state.get("result")),
        "kept": kept,
        "may_start": may_start,
        "fields": _fields(view, [each["name"] for each in models], state["recording"]),
    }


async def _state(view: View, asked: str | None) -> Json:
    """Return the replay *asked*, or the latest one. If the gateway does not keep it, return a state without replay."""
    latest = await view.admin.get("what-if")
    if asked is None or asked == latest["id"]:
        return latest
    try:
        return await view.admin.get("what-if", "replays", asked)
    except AdminRefused as refused:
        if refused.status != 404:
            raise
        return {**UNAVAILABLE, "recording": latest["recording"]}


def _fields(view: View, models: list[str], recording: Json | None) -> Context:
    """Return choices and values of the form. The URL can contain the values."""
    alternatives = [f"{name}-{number}" for number in ALTERNATIVES for name in ("strategy", "workers", "cache")]
    given = {name: view.query[name] for name in alternatives if view.query.get(name)}
    keep_s = recording["keep_s"] if recording is not None and recording["enabled"] else 0.0
    minutes = [each for each in MINUTES if 60 * int(each) <= keep_s] or [MINUTES[0]]
    values = {name: view.query.get(name, "") for name in ("model", "minutes", "users", "kv-events")}
    values["minutes"] = values["minutes"] if values["minutes"] in minutes else minutes[-1]
    return {
        "models": models,
        "minutes": minutes,
        "strategies": NAMES,
        "numbers": ALTERNATIVES,
        "events": EVENTS,
        "max_mib": MAX_TRACE_BYTES // 2**20,
        "values": {**dict.fromkeys(alternatives, ""), **values, **(given or FIRST)},
    }


def rows(result: Json | None) -> list[Json]:
    """Return the rows of the comparison: the present, measured and replayed, and the alternatives."""
    if result is None:
        return []
    found: list[Json] = []
    present = result["recorded"]
    if present is not None:
        if result["measured"] is not None:
            measured = {"fleet": present["fleet"], "figures": result["measured"], "error": None}
            found.append({"name": "Present, measured", "gpu_hours": None, "usd": None, **measured})
        found.append({"name": "Present, replayed", **present})
    found += [{"name": f"Alternative {number}", **row} for number, row in enumerate(result["alternatives"], start=1)]
    means = [row["figures"]["ttft_mean_s"] for row in found if row["figures"] is not None]
    longest_s = max(means, default=0.0) or 1.0
    compared = [row["figures"] for row in found if row["name"] != "Present, measured"]
    base_s = compared[0]["ttft_mean_s"] if compared and compared[0] is not None else None
    return [{**row, **_compared(row, base_s, longest_s)} for row in found]


def _compared(row: Json, base_s: float | None, longest_s: float) -> Json:
    """Return the bar of *row*, and the difference of an alternative from *base_s*, the mean of the first replay."""
    if row["figures"] is None:
        return {"width": 0.0, "change": None}
    mean_s = row["figures"]["ttft_mean_s"]
    is_alternative = row["name"].startswith("Alternative")
    change = mean_s / base_s - 1.0 if base_s and is_alternative else None
    return {"width": 100.0 * mean_s / longest_s, "change": change}


def saved(result: Json | None) -> Json | None:
    """Return what the caches saved for all teams together, compared with round robin, or None if nothing was saved."""
    teams = result["savings"] if result is not None else []
    if sum(each["saved_tokens"] for each in teams) <= 0:
        return None
    known = [each["saved_usd"] for each in teams if each["saved_usd"] is not None]
    return {
        "tokens": sum(each["saved_tokens"] for each in teams),
        "seconds": sum(each["saved_s"] for each in teams),
        "usd": sum(known) if known else None,
    }


async def start(view: View, form: Form) -> Done:
    """Start a replay. An error keeps the values of the form, which are in the address of the page."""
    values = {name: text.strip() for name, text in form.items() if name not in ("csrf", "back", "trace")}
    try:
        state = await view.admin.request("POST", ("what-if",), body=_body(values, form.get("trace", "")))
    except AdminRefused as refused:
        return Done(location=address(values), text=refused.message, kind="failed")
    return Done(location=address({"replay": state["id"], **values}), text="The replay has started.")


async def cancel(view: View, _form: Form) -> Done:
    """Cancel the running replay."""
    state = await view.admin.request("DELETE", ("what-if",))
    is_cancelled = state["status"] == "cancelled"
    location = PATH if state["id"] is None else address({"replay": state["id"]})
    return Done(location=location, text="The replay was cancelled." if is_cancelled else "No replay is running.")


def address(values: Form) -> str:
    """Return the URL of the page with *values*, so that another person can open the same replay or the same form."""
    known = {"replay", "model", "minutes", "users", "kv-events"}
    known |= {f"{name}-{number}" for number in ALTERNATIVES for name in ("strategy", "workers", "cache")}
    given = {name: text[:300] for name, text in values.items() if name in known and text}
    return f"{PATH}?{urlencode(given)}" if given else PATH


def _body(values: Form, trace: str) -> Json:
    """Return the body for the admin API.

    Raises:
        AdminRefused: if a value is not a number.
    """
    alternatives = [_alternative(values, number) for number in ALTERNATIVES]
    body: dict[str, Any] = {"alternatives": [each for each in alternatives if each]}
    if values.get("model"):
        body["model"] = values["model"]
    if values.get("kv-events"):
        body["kv_events"] = values["kv-events"] == "yes"
    if trace.strip():
        return {**body, "trace": trace, "users": int(_number(values, "users", "The number of sessions") or 1)}
    return {**body, "last_s": 60.0 * (_number(values, "minutes", "The number of minutes") or 60.0)}


def _alternative(values: Form, number: str) -> Json:
    """Return the alternative *number* without the fields that are as recorded."""
    workers = _number(values, f"workers-{number}", f"The number of workers in alternative {number}")
    factor = _number(values, f"cache-{number}", f"The cache size in alternative {number}")
    found = {
        "strategy": values.get(f"strategy-{number}") or None,
        "workers": None if workers is None else int(workers) if workers == int(workers) else workers,
        "cache_factor": factor,
    }
    return {name: value for name, value in found.items() if value is not None}


def _number(values: Form, name: str, what: str) -> float | None:
    text = values.get(name, "").replace(",", ".")
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise AdminRefused(400, f"{what} must be a number above 0.")
    return number


PAGES: Final = (
    Page(
        path=PATH,
        title="What if",
        template="what_if.html",
        load=load,
        in_navigation=True,
        live={
            "progress": "what_if/progress.html",
            "cancel": "what_if/cancel.html",
            "result": "what_if/result.html",
            "kept": "what_if/kept.html",
        },
    ),
)
ACTIONS: Final = (
    Action(path=PATH, role="operator", act=start, back=PATH, max_upload_bytes=MAX_TRACE_BYTES),
    Action(path=f"{PATH}/cancel", role="operator", act=cancel, back=PATH),
)
