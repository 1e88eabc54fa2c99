"""Page with the state of the gateway: its models and their workers."""

from typing import Final

from gateway.console.page import Context, Page, View


async def load(view: View) -> Context:
    """Return all models with their workers."""
    return {"models": await view.admin.listed("models")}


PAGES: Final = (
    Page(
        path="/console",
        title="Overview",
        template="overview.html",
        load=load,
        in_navigation=True,
        live={"workers": "overview/workers.html"},
    ),
)
