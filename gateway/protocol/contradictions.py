"""Contradictions between settings that are valid alone, such as two workers with one id."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.protocol.field_names import Place
from gateway.protocol.worker_address import endpoint


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Contradiction between two settings, as parts of a sentence. *other* is the second setting, if there is one."""

    place: Place
    text: str
    other: Place = ()


def repeated(values: Sequence[tuple[Place, str]]) -> list[Contradiction]:
    """Return one contradiction for each value that also occurs at an earlier place in the settings."""
    first: dict[str, Place] = {}
    found: list[Contradiction] = []
    for place, value in values:
        if value in first:
            text = f"is {value!r}, which is already used by"
            found.append(Contradiction(place, text, first[value]))
        else:
            first[value] = place
    return found


def ambiguous(workers: Sequence[tuple[Place, str, str]]) -> list[Contradiction]:
    """Return one contradiction for each worker (place, id, url) whose id has another url earlier in the settings.

    The prefix index identifies workers by their id, whichever model they serve.
    """
    first: dict[str, tuple[Place, str]] = {}
    found: list[Contradiction] = []
    for place, worker_id, url in workers:
        earlier, earlier_url = first.setdefault(worker_id, (place, url))
        if endpoint(url) != endpoint(earlier_url):
            text = f"is {worker_id!r}, but this id is already used for another url in"
            found.append(Contradiction((*place, "id"), text, (*earlier, "url")))
    return found


def roles_in_vain(workers: Sequence[tuple[Place, str]]) -> list[Contradiction]:
    """Return one contradiction for each worker (place, role) that has a prefill or decode role in a model without
    disaggregation.
    """
    text = "is {!r}, but the model has no disaggregation. Configure it, or remove the role"
    return [Contradiction((*place, "role"), text.format(role)) for place, role in workers if role != "both"]
