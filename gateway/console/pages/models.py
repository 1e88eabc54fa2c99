"""Page with models, routes and workers, where operators drain workers, set weights, and reload the configuration."""

import math
from typing import Final

from gateway.console.admin_client import AdminRefused
from gateway.console.forms import Form
from gateway.console.page import Action, Context, Done, Page, View

PATH: Final = "/console/models"
WEIGHT: Final = "weight."
"""Beginning of the name of a form field with a weight. The rest is the name of the model."""


async def load(view: View) -> Context:
    """Return the models, and the routes with their weights."""
    models, routes = await view.admin.listed("models"), await view.admin.listed("routes")
    shown = [{**route, "rows": _rows(route)} for route in sorted(routes, key=lambda route: str(route["name"]))]
    return {"models": models, "routes": shown, "may_change": view.session.key.may("operator")}


def _rows(route: Context) -> list[Context]:
    """Return the models of *route*, those with weights first, each with the names of the rules that select it."""
    rules: dict[str, list[str]] = {}
    for rule in route["rules"]:
        rules.setdefault(rule["model"], []).append(rule["name"])
    weighted = [{**each, "rules": rules.pop(each["model"], [])} for each in route["variants"]]
    return [*weighted, *({"model": model, "rules": names} for model, names in rules.items())]


async def drain(view: View, form: Form) -> Done:
    """Drain a worker of one model."""
    await view.admin.request("POST", ("workers", "drain"), body=_worker(form))
    text = f"The worker {form['worker']} gets no new requests of {form['model']}. Long streams move to other workers."
    return Done(location=PATH, text=text)


async def undrain(view: View, form: Form) -> Done:
    """Send requests to a drained worker again."""
    await view.admin.request("POST", ("workers", "undrain"), body=_worker(form))
    return Done(location=PATH, text=f"The worker {form['worker']} gets requests of {form['model']} again.")


async def set_weights(view: View, form: Form) -> Done:
    """Set the weights of a route on all gateways."""
    route = form.get("route", "")
    given = {name.removeprefix(WEIGHT): text for name, text in form.items() if name.startswith(WEIGHT)}
    weights = {model: _weight(model, text) for model, text in given.items()}
    await view.admin.request("PUT", ("routes", "weights"), body={"route": route, "weights": weights})
    return Done(location=PATH, text=f"The weights of the route {route} are set, on all gateways that share the store.")


async def use_settings(view: View, form: Form) -> Done:
    """Use the weights of a route in the settings again."""
    route = form.get("route", "")
    await view.admin.request("DELETE", ("routes", "weights"), query={"route": route})
    return Done(location=PATH, text=f"The route {route} uses the weights of the settings again.")


def _weight(model: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise AdminRefused(400, f"The weight of the model {model!r} must be a number, 0 for no requests.")
    return value


async def reload(view: View, _form: Form) -> Done:
    """Reload the configuration of the gateway."""
    answer = await view.admin.request("POST", ("reload",))
    if answer["needs_restart"]:
        text = f"The configuration was reloaded. A restart is needed for {', '.join(answer['needs_restart'])}."
    elif answer["outcome"] == "unchanged":
        text = "The configuration has not changed."
    else:
        text = "The configuration was reloaded and applied."
    return Done(location=PATH, text=text)


def _worker(form: Form) -> Context:
    return {"worker": form.get("worker", ""), "model": form.get("model", "")}


PAGES: Final = (
    Page(
        path=PATH,
        title="Models and routes",
        template="models.html",
        load=load,
        in_navigation=True,
        live={"models": "models/models.html"},
        interval_s=5.0,
    ),
)
ACTIONS: Final = (
    Action(path="/console/do/drain", role="operator", act=drain, back=PATH),
    Action(path="/console/do/undrain", role="operator", act=undrain, back=PATH),
    Action(path="/console/do/route-weights", role="operator", act=set_weights, back=PATH),
    Action(path="/console/do/route-settings", role="operator", act=use_settings, back=PATH),
    Action(path="/console/do/reload", role="operator", act=reload, back=PATH),
)
