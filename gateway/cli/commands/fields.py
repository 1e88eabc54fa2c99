"""The fields of teams and keys as options: the words of the settings and of the admin API, with hyphens."""

import argparse
from typing import Any, get_args

from gateway.cli.commands import values
from gateway.cli.commands.output import CommandFailed
from gateway.cli.commands.values import LimitValue
from gateway.tenancy.teams.team import Priority
from routing.strategies import NAMES

Json = dict[str, Any]

_ON_OFF = argparse.BooleanOptionalAction
_SHARED = ("weight", "priority", "models", "strategies", "fallback", "blocked", "limits", "model_limits")
TEAM_FIELDS = (*_SHARED, "ttft_s", "isolated_cache", "projects", "guardrails")
KEY_FIELDS = (*_SHARED, "project", "networks", "expires_at")


def add_team_fields(command: argparse.ArgumentParser, *, to_change: bool) -> None:
    """The options of `team create`, or, *to_change*, of `team update`."""
    group = _add_shared(command, TEAM_FIELDS, to_change=to_change)
    group.add_argument(
        "--ttft-s",
        metavar="S",
        type=values.positive,
        help="target seconds to first token; if missed, a fallback may answer",
    )
    group.add_argument(
        "--isolated-cache", action=_ON_OFF, default=None, help="keep cached prefixes separate from other teams"
    )
    group.add_argument(
        "--project",
        dest="projects",
        metavar="TAG",
        action="append",
        help="tag for reporting usage separately; repeatable",
    )
    group.add_argument(
        "--guardrail",
        dest="guardrails",
        metavar="NAME",
        action="append",
        help="guardrail that checks its requests and answers; repeatable",
    )


def add_key_fields(command: argparse.ArgumentParser, *, to_change: bool) -> None:
    """The options of `key create`, or, *to_change*, of `key update`."""
    group = _add_shared(command, KEY_FIELDS, to_change=to_change)
    group.add_argument("--project", metavar="TAG", help="tag that separates its usage")
    group.add_argument(
        "--network",
        dest="networks",
        metavar="CIDR",
        action="append",
        help="network that the key may be used from; repeatable",
    )
    group.add_argument(
        "--expires", metavar="WHEN", type=values.expiry, help="expiry: e.g. 30d, 2026-12-31, or never (the default)"
    )


def said_of(arguments: argparse.Namespace, fields: tuple[str, ...], *, now: float) -> Json:
    """Return *fields* from the options, as the API takes them; null where a default is to come back.

    *now*, in seconds since 1970, is what an expiry counts from.

    Raises:
        CommandFailed: they contradict each other.
    """
    body = {name: getattr(arguments, name, None) for name in fields}
    if arguments.no_models:
        if body["models"] is not None:
            raise CommandFailed("--no-models cannot be combined with --model.", code=2)
        body["models"] = []
    if getattr(arguments, "expires", None) is not None:
        body["expires_at"] = arguments.expires.at_time(now)
    body["limits"] = {each.measure: each.amount for each in arguments.limits or ()}
    body["model_limits"] = _by_model(arguments.model_limits or ())
    said = {name: value for name, value in body.items() if value not in (None, {})}
    if getattr(arguments, "expires", None) is not None:
        said["expires_at"] = body["expires_at"]
    for name in getattr(arguments, "reset", None) or ():
        if name in said:
            raise CommandFailed(f"--reset {name} cannot be combined with an option that sets it.", code=2)
        said[name] = None
    return said


def _add_shared(
    command: argparse.ArgumentParser, fields: tuple[str, ...], *, to_change: bool
) -> "argparse._ArgumentGroup":
    group = command.add_argument_group("fields")
    group.add_argument(
        "--limit",
        dest="limits",
        metavar="MEASURE=N",
        type=values.limit,
        action="append",
        help=f"limit, repeatable; MEASURE is one of {', '.join(values.MEASURES)}"
        + ("; N may be none" if to_change else ""),
    )
    group.add_argument(
        "--model-limit",
        dest="model_limits",
        metavar="MODEL:MEASURE=N",
        type=values.model_limit,
        action="append",
        help="like --limit, for one model",
    )
    group.add_argument(
        "--model",
        dest="models",
        metavar="NAME",
        action="append",
        help="allowed model; repeatable; NAME may end in *",
    )
    group.add_argument("--no-models", action="store_true", help="allow no models")
    group.add_argument(
        "--strategy", dest="strategies", choices=NAMES, action="append", help="allowed strategy; repeatable"
    )
    group.add_argument("--fallback", action=_ON_OFF, default=None, help="allow fallbacks to answer")
    group.add_argument(
        "--priority", choices=get_args(Priority), help="priority of its requests; higher is served first"
    )
    group.add_argument(
        "--weight", metavar="W", type=values.positive, help="share of a saturated fleet, relative to others"
    )
    group.add_argument("--blocked", action=_ON_OFF, default=None, help="refuse its requests")
    if to_change:
        group.add_argument(
            "--reset",
            metavar="FIELD",
            choices=fields,
            action="append",
            help=f"restore the default of {', '.join(fields)}",
        )
    return group


def _by_model(limits: "list[LimitValue] | tuple[()]") -> dict[str, Json]:
    by_model: dict[str, Json] = {}
    for each in limits:
        assert each.model is not None
        by_model.setdefault(each.model, {})[each.measure] = each.amount
    return by_model
