"""Page with the cache map: which worker holds how much of the hottest prefixes, and whether caches are too small."""

from typing import Final

from gateway.console.admin_client import AdminRefused, Json
from gateway.console.formats import seconds
from gateway.console.page import Context, Page, View

PATH: Final = "/console/cache-map"
PREFIXES: Final = 20
LENGTH: Final = 50
"""Number of workers on one page."""
STEPS: Final = 5
"""Number of colors for prefixes that a worker holds."""
THRASHING: Final = 0.2
"""Share of tokens computed again from which it is marked."""
RESOLUTION_S: Final = 2.0
"""Resolution of the times after which blocks are used again."""


async def load(view: View) -> Context:
    """Return the cache map of one model with a page of its workers."""
    name, after = view.query.get("model") or None, view.query.get("after") or None
    found = await if_observed(view, "cache-map", model=name, after=after, limit=LENGTH, prefixes=PREFIXES)
    if found is None:
        return {"models": [], "map": None}
    rows = [row(found, each) for each in found["workers"]]
    shared = {"models": found["models"], "model": found["model"], "after": after}
    reuse = {"reuse_p50": reuse_time(found["reuse_age_p50_s"]), "reuse_p90": reuse_time(found["reuse_age_p90_s"])}
    return {**shared, **reuse, "map": found, "prefixes": prefixes(found), "rows": rows}


def reuse_time(value: float | None) -> str:
    """Return the time within which blocks were used again."""
    return f"under {RESOLUTION_S:.0f} s" if value is not None and value < RESOLUTION_S else seconds(value)


async def if_observed(view: View, path: str, **query: str | int | None) -> Json | None:
    """Return the object at *path* of the admin API, or None if the gateway does not observe the use of caches.

    Raises:
        AdminRefused: if the admin API answers with another error, for example because a model does not exist.
    """
    try:
        return await view.admin.get(path, query=query)
    except AdminRefused as refused:
        if refused.status == 404 and refused.code != "model_not_found":
            return None
        raise


def prefixes(found: Json) -> list[Json]:
    """Return the prefixes of a map with their numbers and with the count of workers on the page that hold them."""
    holders = [held["prefix"] for worker in found["workers"] for held in worker["held"]]
    return [
        {**prefix, "number": number, "holders": holders.count(prefix["id"])}
        for number, prefix in enumerate(found["prefixes"], start=1)
    ]


def row(found: Json, worker: Json) -> Json:
    """Return *worker* with a cell for each prefix of the map *found*, None if the worker holds nothing of a prefix."""
    held = {each["prefix"]: each for each in worker["held"]}
    p90_s, age_s = found["reuse_age_p90_s"], worker["eviction_age_s"]
    return {
        **worker,
        "used_share": worker["used_tokens"] / worker["capacity_tokens"] if worker["capacity_tokens"] else 0.0,
        "evicts_early": bool(worker["is_full"] and p90_s and age_s is not None and age_s < p90_s),
        "thrashes": (worker["thrash_share"] or 0.0) >= THRASHING,
        "cells": [cell(prefix, held.get(prefix["id"])) for prefix in found["prefixes"]],
    }


def cell(prefix: Json, held: Json | None) -> Json | None:
    """Return the share of *prefix* that is *held*, its color, and the part that is not on the GPU."""
    if held is None or not held["tokens"]:
        return None
    share = min(1.0, held["tokens"] / max(1, prefix["tokens"]))
    slower = held["cpu_tokens"] + held["disk_tokens"] + held["shared_tokens"]
    return {**held, "share": share, "heat": max(1, round(share * STEPS)), "slower_tokens": slower}


PAGES: Final = (
    Page(
        path=PATH,
        title="Cache map",
        template="cache_map.html",
        load=load,
        in_navigation=True,
        live={"map": "caches/map.html"},
        interval_s=5.0,
    ),
)
