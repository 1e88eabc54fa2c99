"""Page with the state of the gateway: its traffic, what is wrong, and its workers."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gateway.console.admin_client import AdminRefused, Json
from gateway.console.charts import Chart, chart
from gateway.console.formats import count, percent, rate, seconds, time_of_day
from gateway.console.page import Context, Page, View

MINUTES: Final = ("15", "60")
SHOWN: Final = 40
"""Maximum number of workers of a model that the page lists. Workers that are not up come first."""


async def load(view: View) -> Context:
    """Return the traffic of the last minutes, the findings, and the workers of each model."""
    minutes = view.query.get("minutes", MINUTES[0])
    overview = await view.admin.get("overview", query={"minutes": minutes})
    models = await view.admin.listed("models")
    series, spend = overview["series"], await _spend(view)
    return {
        "minutes": minutes,
        "choices": MINUTES,
        "now": overview["now"],
        "figures": _figures(overview["now"]),
        "waiting": sum(each["waiting"] for each in series[-1:]),
        "spend": spend,
        "charts": _charts(series),
        "findings": (await view.admin.get("diagnosis", "findings"))["data"],
        "models": [_with_counts(model) for model in models],
    }


async def _spend(view: View) -> Json | None:
    """Return the usage of the current day, or None while the store is unavailable."""
    try:
        day = (await view.admin.get("usage", query={"group_by": "day"}))["data"]
    except AdminRefused:
        return None
    return day[-1] if day else None


def _figures(now: Json | None) -> Json:
    """Return rates and shares of the last minute. A value is None if it is not known."""
    if now is None:
        return dict.fromkeys(("requests", "output", "hits", "failed"))
    per_s = max(now["seconds"], 1e-9)
    return {
        "requests": now["requests"] / per_s,
        "output": now["completion_tokens"] / per_s,
        "hits": _share(now["cached_tokens"], now["prompt_tokens"]),
        "failed": _share(now["failed"], now["requests"]),
    }


def _charts(series: Sequence[Json]) -> list[Chart]:
    times = [time_of_day(each["time"])[:5] for each in series]
    answered = [_rate(each, each["requests"] - each["failed"] - each["refused"]) for each in series]
    failed, refused = ([_rate(each, each[name]) for each in series] for name in ("failed", "refused"))
    hits = [_share(each["cached_tokens"], each["prompt_tokens"]) for each in series]
    medians, highs = ([each[name] for each in series] for name in ("ttft_p50_s", "ttft_p95_s"))
    in_flight, waiting = ([float(each[name]) for each in series] for name in ("in_flight", "waiting"))
    return [
        chart("Requests", times, {"answered": answered, "refused": refused, "failed": failed}, rate),
        chart("Time to first token", times, {"median": medians, "95th percentile": highs}, seconds),
        chart("Prompt tokens from the cache", times, {"cached": hits}, percent),
        chart("Requests at the gateway", times, {"in progress": in_flight, "waiting": waiting}, count),
    ]


def _with_counts(model: Json) -> Json:
    """Return *model* with the number of its workers by state, and with the workers to list."""
    workers = model["workers"]
    listed = sorted(workers, key=lambda worker: (worker["state"] == "up", -worker["in_flight"]))[:SHOWN]
    is_whole = len(workers) <= SHOWN
    return {
        **model,
        "states": Counter(worker["state"] for worker in workers).most_common(),
        "listed": workers if is_whole else listed,
        "others": 0 if is_whole else len(workers) - SHOWN,
    }


def _rate(interval: Json, value: float) -> float:
    return value / max(float(interval["seconds"]), 1e-9)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


PAGES: Final = (
    Page(
        path="/console",
        title="Overview",
        template="overview.html",
        load=load,
        in_navigation=True,
        live={
            "figures": "overview/figures.html",
            "findings": "overview/findings.html",
            "charts": "overview/charts.html",
            "workers": "overview/workers.html",
        },
        interval_s=5.0,
    ),
)
