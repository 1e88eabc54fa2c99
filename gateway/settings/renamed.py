"""Renamed and moved settings. Their former names are still accepted, with a warning that contains the new name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.protocol.field_names import Place, dotted
from gateway.settings.names import PREFIX, place_of, variable_of

ANY: Final = "*"
"""Placeholder for any entry of a list or any key of a mapping."""


@dataclass(frozen=True, slots=True)
class RenamedSetting:
    """Setting that was renamed. *old* and *new* contain `ANY` equally often. *values* maps old values to new ones."""

    old: Place
    new: Place
    values: Mapping[str, str] = field(default_factory=dict)


def _renamed(old: str, new: str, **values: str) -> RenamedSetting:
    """Return a renamed setting. *new* is a name in the same group or, if it contains a dot, a complete place."""
    place = _parsed(old)
    return RenamedSetting(place, _parsed(new) if "." in new else (*place[:-1], new), values)


def _parsed(pattern: str) -> Place:
    return tuple(pattern.replace("[]", f".{ANY}").split("."))


RENAMED: Final = (
    _renamed("routing.most_waiting", "max_waiting"),
    _renamed("queue.most_waiting_per_team", "max_waiting_per_team"),
    _renamed("breaker.least_requests", "min_requests"),
    _renamed("tracing.most_waiting", "max_waiting"),
    _renamed("server.unread_s", "write_timeout_s"),
    _renamed("models[].adapter_of", "models[].adapter.of"),
    _renamed("models[].adapter.most_per_worker", "max_per_worker"),
    _renamed("models[].disaggregation.least_uncached_tokens", "min_uncached_tokens"),
    _renamed("routes[].when_not_ready", "on_unavailable"),
    _renamed("routes[].rules[].asks", "requires"),
    _renamed("guardrails[].when_away", "on_unavailable", closed="fail_closed", open="fail_open"),
    _renamed("guardrails[].most_at_once", "max_at_once"),
    *(
        _renamed(f"store.away_{what}", f"on_unavailable_{what}", closed="fail_closed")
        for what in ("requests", "tokens", "concurrent", "budget")
    ),
    *(
        _renamed(f"{scope}.{limits}concurrent", "max_concurrent_requests")
        for scope in ("teams[]", "teams[].keys[]")
        for limits in ("limits.", f"model_limits.{ANY}.")
    ),
    _renamed("teams[].keys[].networks", "allowed_cidrs"),
    _renamed("routing.depth_s", "advanced.release_depth_s"),
    _renamed("routing.initial_prefill_tokens_per_s", "advanced.initial_prefill_tokens_per_s"),
    _renamed("routing.other_zone_s", "advanced.zone_penalty_s"),
    _renamed("replicas.tie_s", "advanced.replica_tie_s"),
    _renamed("kv_events.prediction_s", "advanced.kv_prediction_s"),
    *(_renamed(f"kv_events.{tier}_price", f"advanced.{tier}_tier_price") for tier in ("cpu", "disk", "shared")),
    *(
        _renamed(f"retry.{name}", f"advanced.{name}")
        for name in ("first_byte_factor", "first_byte_margin_s", "stall_gaps", "stall_s")
    ),
)
MODEL_BEDROCK: Final[Place] = ("models", ANY, "bedrock")
"""Former setting for a model's last fallback, which is now an entry of `models[].fallbacks`."""


def take_renamed(data: dict[str, Any], environ: Mapping[str, str]) -> tuple[Mapping[str, str], list[str], list[str]]:
    """Replace the former names of settings in *data* by their new names.

    Returns *environ* with the new names of variables, a warning for each former name, and an error message for each
    former name whose new name is set too.
    """
    warnings: list[str] = []
    faults: list[str] = []
    for renamed in RENAMED:
        for place, group in _found(data, renamed.old):
            new = _filled(renamed, place)
            value = group.pop(str(place[-1]))
            if value is None and new[:-1] != place[:-1]:
                warnings.append(_warning(dotted(place), dotted(new), value, renamed))
                continue
            target = _group_at(data, new[:-1])
            if target is None or new[-1] in target:
                faults.append(f"{dotted(place)} is the former name of {dotted(new)}, which is set too. Remove it.")
                continue
            target[str(new[-1])] = _translated(value, renamed)
            warnings.append(_warning(dotted(place), dotted(new), value, renamed))
    moved: dict[str | int, int] = {}
    for place, group in _found(data, MODEL_BEDROCK):
        value, number = group.pop("bedrock"), len(_fallbacks(group))
        if value is not None:
            group["fallbacks"] = [*_fallbacks(group), {"bedrock": value}]
            moved[place[1]] = number
        warnings.append(f"{dotted(place)} is deprecated: use {dotted((*place[:-1], 'fallbacks', number, 'bedrock'))}.")
    return _renamed_variables(data, environ, moved, warnings, faults), warnings, faults


def _renamed_variables(
    data: Mapping[str, Any],
    environ: Mapping[str, str],
    moved: Mapping[str | int, int],
    warnings: list[str],
    faults: list[str],
) -> Mapping[str, str]:
    variables = dict(environ)
    for variable in sorted(environ):
        if not variable.startswith(PREFIX):
            continue
        place = place_of(variable)
        renamed = next((each for each in RENAMED if _matches(each.old, place)), None)
        if renamed is not None:
            new = variable_of(_filled(renamed, place))
        elif _matches(MODEL_BEDROCK, place[:3]):
            renamed, new = RenamedSetting(place, place), variable_of(_place_of_bedrock(data, environ, moved, place))
        else:
            continue
        text = variables.pop(variable)
        if new in environ:
            faults.append(f"{variable} is the former name of {new}, which is set too. Remove it.")
            continue
        variables[new] = str(_translated(text, renamed))
        warnings.append(_warning(variable, new, text, renamed))
    return variables


def _place_of_bedrock(
    data: Mapping[str, Any], environ: Mapping[str, str], moved: Mapping[str | int, int], place: Place
) -> Place:
    """Return the new place of a setting that was below `models[].bedrock` at *place*: the entry of *moved*, or an added
    entry.
    """
    models, number = data.get("models"), int(place[1])
    if number in moved:
        return ("models", number, "fallbacks", moved[number], *place[2:])
    model = models[number] if isinstance(models, list) and number < len(models) else None
    given = len(_fallbacks(model if isinstance(model, dict) else {}))
    prefix = f"{variable_of(('models', number, 'fallbacks'))}__"
    others = (name.removeprefix(prefix).partition("__")[0] for name in environ if name.startswith(prefix))
    entry = max([given, *(int(each) + 1 for each in others if each.isdecimal())])
    return ("models", number, "fallbacks", entry, *place[2:])


def _fallbacks(model: Mapping[str, Any]) -> list[Any]:
    given = model.get("fallbacks")
    return given if isinstance(given, list) else []


def _warning(old: str, new: str, value: Any, renamed: RenamedSetting) -> str:
    translated = f": {renamed.values[value]}" if isinstance(value, str) and value in renamed.values else ""
    return f"{old} is deprecated: use {new}{translated}."


def _translated(value: Any, renamed: RenamedSetting) -> Any:
    return renamed.values.get(value, value) if isinstance(value, str) else value


def _found(data: Any, pattern: Place, above: Place = ()) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield each place in *data* that matches *pattern* and has a value, with its group."""
    step, rest = pattern[0], pattern[1:]
    if step == ANY:
        entries: list[tuple[Any, Any]] = list(enumerate(data)) if isinstance(data, list) else []
        if isinstance(data, dict):
            entries = list(data.items())
        for key, value in entries:
            yield from _found(value, rest, (*above, key))
    elif isinstance(data, dict) and step in data:
        if not rest:
            yield (*above, step), data
        else:
            yield from _found(data[step], rest, (*above, step))


def _group_at(data: Any, place: Place) -> dict[str, Any] | None:
    """Return the group at *place*, and create missing groups. If *place* has another kind of value, return None."""
    node = data
    for step in place:
        if isinstance(node, dict) and node.get(str(step)) is None and not isinstance(step, int):
            node[step] = {}
        node = node[step]
    return node if isinstance(node, dict) else None


def _matches(pattern: Place, place: Place) -> bool:
    return len(pattern) == len(place) and all(step in (ANY, other) for step, other in zip(pattern, place, strict=True))


def _filled(renamed: RenamedSetting, place: Place) -> Place:
    """Return the new place of the renamed setting that is at *place* in *data*."""
    entries = iter([step for pattern, step in zip(renamed.old, place, strict=True) if pattern == ANY])
    return tuple(next(entries) if step == ANY else step for step in renamed.new)
