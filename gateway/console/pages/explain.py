"""Page that explains where a request would go, and sends it. The request is neither kept nor logged."""

from typing import Any, Final

import msgspec

from gateway.console.admin_client import AdminRefused, Json
from gateway.console.forms import Form
from gateway.console.page import Action, Context, Page, Sent, Shown, View
from gateway.console.playground import CHAT, HEADERS_MARKER, MARKER

PATH: Final = "/console/explain"
PARTS: Final = (
    ("wait", "wait for earlier prompts"),
    ("prefill", "computation of the prompt"),
    ("load", "load from slower tiers"),
    ("evict", "evicted blocks"),
    ("displace", "displaced sessions"),
    ("zone", "other zone or adapter"),
    ("rest", "busy fleet and slower streams"),
)
"""Parts of the cost of a worker, in the order of a bar, each with its label."""
WIDTH: Final = 300.0


async def load(view: View) -> Context:
    """Return an empty form, with an example for the first model."""
    models = await view.admin.listed("models", most=1)
    example = {
        "model": models[0]["name"] if models else "",
        "messages": [{"role": "user", "content": "Why is the sky blue?"}],
        "max_tokens": 200,
        "stream": True,
    }
    body = msgspec.json.format(msgspec.json.encode(example), indent=2).decode()
    return {**blank(), "body": body}


def blank() -> Context:
    """Return the values of the page before anything is explained."""
    return {"body": "", "path": CHAT, "team": "", "fault": None, "found": None, "parts": PARTS}


async def explain(view: View, form: Form) -> Shown:
    """Explain the request in the form. Errors are shown beside the request, so that it need not be typed again."""
    shown: Context = {**blank(), "body": form.get("body", ""), "path": form.get("path") or CHAT}
    shown["team"] = form.get("team", "")
    try:
        body = msgspec.json.decode(shown["body"], type=dict[str, Any])
        query = {"path": shown["path"], "team": shown["team"] or None}
        shown["found"] = ranked(await view.admin.request("POST", ("explain",), query=query, body=body))
    except msgspec.MsgspecError:
        shown["fault"] = "The request is not a JSON object."
    except AdminRefused as refused:
        shown["fault"] = refused.message
    return Shown(title="Explain", template="explain.html", context=shown)


async def send(_view: View, form: Form) -> Shown | Sent:
    """Send the request in the form with the API key in the form, and stream the answer."""
    text = form.get("body", "")
    try:
        body = msgspec.json.encode(msgspec.json.decode(text, type=dict[str, Any]))
    except msgspec.MsgspecError:
        fault = "The request is not a JSON object."
        return Shown(title="Explain", template="explain.html", context={**blank(), "body": text, "fault": fault})
    context = {"body": text, "marker": MARKER, "headers_marker": HEADERS_MARKER}
    key = form.get("key", "").strip()
    return Sent(title="Answer", template="explain/answer.html", context=context, body=body, key=key)


def ranked(found: Json) -> Json:
    """Return the explanation *found* with the bars of all ranked workers, on one scale."""
    workers = [each for each in found["workers"] if each["rank"] is not None]
    longest_s = max((cost(each) for each in workers), default=0.0) or 1.0
    return {
        **found,
        "ranked": [{**each, "total_s": cost(each), "bars": bars(each, longest_s)} for each in workers],
        "excluded": [each for each in found["workers"] if each["rank"] is None],
    }


def cost(worker: Json) -> float:
    """Return the cost by which *worker* was ranked, or else its predicted time to the first token."""
    return float(worker["predicted_ttft_s"] if worker["cost_s"] is None else worker["cost_s"])


def bars(worker: Json, longest_s: float) -> list[Json]:
    """Return the parts of the cost of *worker* as parts of a bar. *longest_s* fills the whole width."""
    backlog_s = worker["load"]["backlog_s"]
    values = {"wait": backlog_s, "prefill": max(0.0, worker["predicted_ttft_s"] - backlog_s)}
    if worker["cost_s"] is not None:
        values |= {
            "load": worker["hit_load_s"],
            "evict": worker["evicts_s"],
            "displace": worker["displaces_s"],
            "zone": worker["zone_penalty_s"],
        }
        values["rest"] = max(0.0, worker["cost_s"] - sum(values.values()))
    at, found = 0.0, []
    for name, label in PARTS:
        width = WIDTH * values.get(name, 0.0) / longest_s
        if width >= 0.05:
            found.append({"name": name, "label": label, "seconds": values[name], "x": at, "width": width})
            at += width
    return found


PAGES: Final = (Page(path=PATH, title="Explain", template="explain.html", load=load, in_navigation=True),)
ACTIONS: Final = (Action(path=PATH, role="viewer", act=explain, back=PATH),)
SENDING: Final = (Action(path="/console/explain/send", role="viewer", act=send, back=PATH),)
"""Actions that need an application for completions."""
