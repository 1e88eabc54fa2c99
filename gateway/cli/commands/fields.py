"""Command-line options for the fields of teams and keys. Option names are the admin API's field names with hyphens."""

import argparse
from typing import Any, get_args

from gateway.cli.commands import values
from gateway.cli.commands.output import CommandFailed
from gateway.cli.commands.values import LimitValue
from gateway.tenancy.teams.team import Priority
from routing.strategies import NAMES

Json = dict[str, Any]

_ON_OFF = argparse.BooleanOptionalAction
_SHARED = (
    "weight",
    "priority",
    "models",
    "strategies",
    "fallback",
    "blocked",
    "limits",
    "model_limits",
    "limit_template",
)
_LIMITS = frozenset({"limits", "user_limits", "session_limits"})
_LIMITS_BY_NAME = frozenset({"model_limits", "project_limits"})
TEAM_FIELDS = (
    *_SHARED,
    "user_limits",
    "session_limits",
    "project_limits",
    "ttft_s",
    "isolated_cache",
    "projects",
    "guardrails",
)
KEY_FIELDS = (*_SHARED, "project", "networks", "expires_at")


def add_team_fields(command: argparse.ArgumentParser, *, to_change: bool) -> None:
    """Add the options of `team create`, or of `team update` if *to_change* is true."""
    group = _add_shared(command, TEAM_FIELDS, to_change=to_change)
    group.add_argument(
        "--user-limit",
        dest="user_limits",
        metavar="MEASURE=N",
        type=values.limit,
        action="append",
        help="limit of each end user, in the format of --limit; repeatable",
    )
    group.add_argument(
        "--session-limit",
        dest="session_limits",
        metavar="MEASURE=N",
        type=values.limit,
        action="append",
        help="limit of each session, in the format of --limit; repeatable",
    )
    group.add_argument(
        "--project-limit",
        dest="project_limits",
        metavar="PROJECT:MEASURE=N",
        type=values.project_limit,
        action="append",
        help="limit of one project, in the format of --limit; repeatable",
    )
    group.add_argument(
        "--ttft-s",
        metavar="S",
        type=values.positive,
        help="target time to first token in seconds; slower requests can go to a fallback",
    )
    group.add_argument(
        "--isolated-cache",
        action=_ON_OFF,
        default=None,
        help="keep the team's cached prefixes separate from those of other teams",
    )
    group.add_argument(
        "--project",
        dest="projects",
        metavar="TAG",
        action="append",
        help="project tag for separate usage reports; repeatable",
    )
    group.add_argument(
        "--guardrail",
        dest="guardrails",
        metavar="NAME",
        action="append",
        help="guardrail that checks the team's requests and answers; repeatable",
    )


def add_key_fields(command: argparse.ArgumentParser, *, to_change: bool) -> None:
    """Add the options of `key create`, or of `key update` if *to_change* is true."""
    group = _add_shared(command, KEY_FIELDS, to_change=to_change)
    group.add_argument("--project", metavar="TAG", help="project tag for separate usage reports")
    group.add_argument(
        "--network",
        "--allowed-cidr",
        dest="networks",
        metavar="CIDR",
        action="append",
        help="network from which the key is accepted; repeatable",
    )
    group.add_argument(
        "--expires", metavar="WHEN", type=values.expiry, help="expiry, e.g. 30d or 2026-12-31 (default: never)"
    )


def said_of(arguments: argparse.Namespace, fields: tuple[str, ...], *, now: float) -> Json:
    """Return the command-line options among *fields* as a request body for the admin API.

    A field to reset has the value null.

    An expiry such as 30d is relative to *now*, in seconds since 1970.

    Raises:
        CommandFailed: if two options contradict each other.
    """
    body = {name: getattr(arguments, name, None) for name in fields}
    if arguments.no_models:
        if body["models"] is not None:
            raise CommandFailed("--no-models cannot be combined with --model.", code=2)
        body["models"] = []
    if getattr(arguments, "expires", None) is not None:
        body["expires_at"] = arguments.expires.at_time(now)
    for name in _LIMITS & set(fields):
        body[name] = {each.measure: each.amount for each in body[name] or ()}
    for name in _LIMITS_BY_NAME & set(fields):
        body[name] = _by_name(body[name] or ())
    said = {name: value for name, value in body.items() if value not in (None, {})}
    if getattr(arguments, "expires", None) is not None:
        said["expires_at"] = body["expires_at"]
    for name in getattr(arguments, "reset", None) or ():
        if name in said:
            raise CommandFailed(f"--reset {name} cannot be combined with an option that sets the same field.", code=2)
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
        help=f"usage limit; repeatable; MEASURE is one of {', '.join(values.MEASURES)}"
        + ("; N may be none, which removes the limit" if to_change else ""),
    )
    group.add_argument(
        "--limit-template",
        metavar="NAME",
        help="limit template in the settings, whose limits apply where --limit gives none",
    )
    group.add_argument(
        "--model-limit",
        dest="model_limits",
        metavar="MODEL:MEASURE=N",
        type=values.model_limit,
        action="append",
        help="limit for one model, in the format of --limit; repeatable",
    )
    group.add_argument(
        "--model",
        dest="models",
        metavar="NAME",
        action="append",
        help="allowed model, a prefix that ends in *, or group:NAME for a model group; repeatable",
    )
    group.add_argument("--no-models", action="store_true", help="deny access to all models")
    group.add_argument(
        "--strategy", dest="strategies", choices=NAMES, action="append", help="allowed strategy; repeatable"
    )
    group.add_argument("--fallback", action=_ON_OFF, default=None, help="allow fallbacks to answer requests")
    group.add_argument(
        "--priority", choices=get_args(Priority), help="priority of requests; higher priorities are served first"
    )
    group.add_argument(
        "--weight", metavar="W", type=values.positive, help="relative share of capacity while all workers are busy"
    )
    group.add_argument("--blocked", action=_ON_OFF, default=None, help="reject all requests")
    if to_change:
        group.add_argument(
            "--reset",
            metavar="FIELD",
            choices=fields,
            action="append",
            help=f"reset a field to its default; FIELD is one of {', '.join(fields)}",
        )
    return group


def _by_name(limits: "list[LimitValue] | tuple[()]") -> dict[str, Json]:
    by_name: dict[str, Json] = {}
    for each in limits:
        assert each.name is not None
        by_name.setdefault(each.name, {})[each.measure] = each.amount
    return by_name
