"""The fields of teams and keys as options: the words of the settings and of the admin API, with hyphens."""

import argparse
from typing import Any, get_args

from gateway.commands import values
from gateway.commands.output import CommandFailed
from gateway.commands.values import LimitValue
from gateway.teams.team import Priority
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
        "--ttft-s", metavar="S", type=values.positive, help="seconds to the first token; later, a fallback may answer"
    )
    group.add_argument(
        "--isolated-cache", action=_ON_OFF, default=None, help="share cached prefixes with no other team"
    )
    group.add_argument(
        "--project", dest="projects", metavar="TAG", action="append", help="a tag for its usage; repeat it"
    )
    group.add_argument(
        "--guardrail",
        dest="guardrails",
        metavar="NAME",
        action="append",
        help="it looks at its requests and answers; repeat it",
    )


def add_key_fields(command: argparse.ArgumentParser, *, to_change: bool) -> None:
    """The options of `key create`, or, *to_change*, of `key update`."""
    group = _add_shared(command, KEY_FIELDS, to_change=to_change)
    group.add_argument("--project", metavar="TAG", help="the tag by which its usage is told apart")
    group.add_argument(
        "--network", dest="networks", metavar="CIDR", action="append", help="it may be used from there; repeat it"
    )
    group.add_argument(
        "--expires", metavar="WHEN", type=values.expiry, help="after 30d, at 2026-12-31, or never (the default)"
    )


def said_of(arguments: argparse.Namespace, fields: tuple[str, ...], *, now: float) -> Json:
    """What the options say of *fields*, as the API takes it; null where a default is to come back.

    *now*, in seconds since 1970, is what an expiry counts from.

    Raises:
        CommandFailed: they contradict each other.
    """
    body = {name: getattr(arguments, name, None) for name in fields}
    if arguments.no_models:
        if body["models"] is not None:
            raise CommandFailed("--no-models stands beside --model: give the one or the other.", code=2)
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
            raise CommandFailed(f"--reset {name} stands beside another option that sets it.", code=2)
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
        help=f"repeat it; MEASURE is one of {', '.join(values.MEASURES)}" + ("; N may be none" if to_change else ""),
    )
    group.add_argument(
        "--model-limit",
        dest="model_limits",
        metavar="MODEL:MEASURE=N",
        type=values.model_limit,
        action="append",
        help="the same for one model alone",
    )
    group.add_argument(
        "--model",
        dest="models",
        metavar="NAME",
        action="append",
        help="it may be asked for; repeat it, NAME may end in *",
    )
    group.add_argument("--no-models", action="store_true", help="no model at all may be asked for")
    group.add_argument(
        "--strategy", dest="strategies", choices=NAMES, action="append", help="it may be asked for; repeat it"
    )
    group.add_argument("--fallback", action=_ON_OFF, default=None, help="whether fallbacks may answer")
    group.add_argument("--priority", choices=get_args(Priority), help="a higher one is served first")
    group.add_argument("--weight", metavar="W", type=values.positive, help="share of a saturated fleet, beside others")
    group.add_argument("--blocked", action=_ON_OFF, default=None, help="refuse its requests")
    if to_change:
        group.add_argument(
            "--reset",
            metavar="FIELD",
            choices=fields,
            action="append",
            help=f"bring back the default of {', '.join(fields)}",
        )
    return group


def _by_model(limits: "list[LimitValue] | tuple[()]") -> dict[str, Json]:
    by_model: dict[str, Json] = {}
    for each in limits:
        assert each.model is not None
        by_model.setdefault(each.model, {})[each.measure] = each.amount
    return by_model
