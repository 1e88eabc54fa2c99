"""The fields of bodies that are engines' own. Attacks with them: tests/security/test_engine_fields.py."""

import pytest

from gateway.protocol.engine_fields import (
    ENGINE_FIELDS,
    check_engine_fields,
    engine_fields_among,
    engine_fields_of,
)
from gateway.protocol.errors import InvalidField
from gateway.protocol.json_fields import decode_any_chat


def test_what_was_sent_is_known_by_name() -> None:
    """Every value counts, null too."""
    sent = decode_any_chat(b'{"model": "m", "rid": null, "priority": 5, "nvext": {"a": [1]}, "temperature": 1}')

    assert ("nvext", "priority", "rid") == engine_fields_of(sent)
    assert () == engine_fields_of(decode_any_chat(b'{"model": "m", "user": "priority"}'))


def test_the_session_of_a_json_body_is_no_engine_field() -> None:
    """The gateway uses its value. In a form it is a field like the others."""
    assert ("rid",) == engine_fields_of(decode_any_chat(b'{"model": "m", "session_id": "s", "rid": "r"}'))
    assert ("session_id",) == engine_fields_among({"session_id"})


def test_fields_of_forms_are_known_by_name_too() -> None:
    assert ("priority",) == engine_fields_among({"model", "priority", "file"})


def test_what_is_not_allowed_is_refused_by_name() -> None:
    """The first that is not on the list."""
    check_engine_fields((), frozenset())
    check_engine_fields(("priority", "rid"), frozenset({"rid", "priority"}))
    with pytest.raises(InvalidField, match="'rid' is internal to inference engines") as refusal:
        check_engine_fields(("priority", "rid"), frozenset({"priority"}))

    assert "rid" == refusal.value.param


def test_the_names_of_the_issue_are_among_them() -> None:
    assert set(ENGINE_FIELDS) > {
        "kv_transfer_params",
        "bootstrap_host",
        "bootstrap_port",
        "bootstrap_room",
        "data_parallel_rank",
        "nvext",
        "priority",
        "request_id",
        "input_ids",
    }
