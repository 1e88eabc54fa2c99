"""Page with models, routes and workers, where operators drain workers and reload the configuration."""

from typing import Final

from gateway.console.forms import Form
from gateway.console.page import Action, Context, Done, Page, View

PATH: Final = "/console/models"


async def load(view: View) -> Context:
    """Return the models, and the routes that lead to them."""
    models = await view.admin.listed("models")
    routes: dict[str, list[Context]] = {}
    for model in models:
        for route in model["routes"]:
            routes.setdefault(route["name"], []).append({"model": model["name"], **route})
    return {"models": models, "routes": sorted(routes.items()), "may_change": view.session.key.may("operator")}


async def drain(view: View, form: Form) -> Done:
    """Drain a worker of one model."""
    await view.admin.request("POST", ("workers", "drain"), body=_worker(form))
    text = f"The worker {form['worker']} gets no new requests of {form['model']}. Long streams move to other workers."
    return Done(location=PATH, text=text)


async def undrain(view: View, form: Form) -> Done:
    """Send requests to a drained worker again."""
    await view.admin.request("POST", ("workers", "undrain"), body=_worker(form))
    return Done(location=PATH, text=f"The worker {form['worker']} gets requests of {form['model']} again.")


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
    Action(path="/console/do/reload", role="operator", act=reload, back=PATH),
)
