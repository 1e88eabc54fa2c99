"""Page with the truth of the cache index: predicted against reported cache hits of each worker over the last hour."""

from typing import Final

from gateway.console.admin_client import Json
from gateway.console.page import Context, Page, View
from gateway.console.pages.cache_map import if_observed

PATH: Final = "/console/index-truth"
LENGTH: Final = 25
"""Number of workers on one page."""
WIDTH: Final = 300
HEIGHT: Final = 56
MINUTES: Final = 60
SHOWN_MINUTES: Final = 15
"""Number of minutes in the table of a worker."""
COUNTED: Final = ("gaps", "lost_batches", "restarts", "rebuilds")


async def load(view: View) -> Context:
    """Return predicted and reported hits of one model with a page of its workers."""
    name, after = view.query.get("model") or None, view.query.get("after") or None
    found = await if_observed(view, "index-truth", model=name, after=after, limit=LENGTH)
    if found is None:
        return {"models": [], "truth": None}
    workers = [worker_of(each) for each in found["workers"]]
    shared = {"models": found["models"], "model": found["model"], "after": after}
    return {**shared, "truth": found, "workers": workers, "total": total(workers)}


def worker_of(worker: Json) -> Json:
    """Return *worker* with the sums of its hour and the lines of its chart."""
    minutes = worker["minutes"]
    most = max(1, *(max(each["predicted_tokens"], each["reported_tokens"]) for each in minutes))
    return {
        **worker,
        **{name: sum(each[name] for each in minutes) for name in ("requests", "predicted_tokens", "reported_tokens")},
        "most": most,
        "predicted_line": points([each["predicted_tokens"] for each in minutes], most),
        "reported_line": points([each["reported_tokens"] for each in minutes], most),
        "events": [each for each in minutes if any(each[name] for name in COUNTED)],
        "latest": list(reversed(minutes[-SHOWN_MINUTES:])),
    }


def points(values: list[int], most: int) -> str:
    """Return the points of a line through *values*, the last one at the right end. The highest value is *most*."""
    step = WIDTH / MINUTES
    begin = WIDTH - step * (len(values) - 1)
    return " ".join(
        f"{begin + step * place:.1f},{HEIGHT - 3 - (HEIGHT - 6) * value / most:.1f}"
        for place, value in enumerate(values)
    )


def total(workers: list[Json]) -> Json:
    """Return the sums over *workers*. The accuracy is that of all tokens, as far as sums show it."""
    predicted, reported = (sum(each[name] for each in workers) for name in ("predicted_tokens", "reported_tokens"))
    larger = max(predicted, reported)
    return {
        "predicted_tokens": predicted,
        "reported_tokens": reported,
        "agreement": min(predicted, reported) / larger if larger else None,
        "unreliable": sum(each["is_unreliable"] for each in workers),
        "not_live": sum(each["stream"] not in {None, "live"} for each in workers),
        **{name: sum(each[name] for each in workers) for name in COUNTED},
    }


PAGES: Final = (
    Page(
        path=PATH,
        title="Index truth",
        template="index_truth.html",
        load=load,
        in_navigation=True,
        live={"truth": "index_truth/workers.html"},
        interval_s=5.0,
    ),
)
