import importlib
from typing import Any

import httpx
import pytest

from gateway.app.guardrails import Guardrails
from gateway.proxy.guardrails.bedrock_filter import BedrockFilter
from gateway.proxy.guardrails.guard import Chain
from gateway.proxy.guardrails.http_filter import HttpFilter
from gateway.proxy.guardrails.scanning import ScanFilter
from gateway.settings import Settings, SettingsError, build
from tests.gateway.proxy.guardrails.examples import MAIL, a_scan, found_in

AWS = {"kind": "bedrock", "guardrail_id": "g", "version": "2"}
BEDROCK = {"region": "us-east-1", "auth": "bearer", "bearer_token": "t"}


def the_settings(*guardrails: dict[str, Any], model: dict[str, Any] | None = None) -> Settings:
    said = {"name": "tiny", "workers": [{"url": "http://a:1"}], **(model or {})}
    named = [{"name": f"g{i}", **each} for i, each in enumerate(guardrails)]
    names = {"guardrails": [each["name"] for each in named]}
    return build({"models": [{**names, **said}], "guardrails": named, "bedrock": BEDROCK}, {})


def guardrails() -> Guardrails:
    return Guardrails(httpx.AsyncClient())


def chain(settings: Settings, made: Guardrails | None = None) -> Chain:
    found = (made or guardrails()).build(settings)
    assert found is not None
    said = found["tiny"]._chain(())
    assert said is not None
    return said


def test_without_guardrails_there_is_nothing_to_ask() -> None:
    assert guardrails().build(the_settings()) is None


def test_each_kind_is_made() -> None:
    said = chain(the_settings({"kind": "pii"}, {"kind": "secrets"}, AWS, {"kind": "http", "url": "http://x/"}))

    assert [ScanFilter, ScanFilter, BedrockFilter, HttpFilter] == [type(rule.filter) for rule in said.rules]
    assert ["g0", "g1", "g2", "g3"] == [rule.filter.name for rule in said.rules]


def test_what_has_not_changed_is_kept() -> None:
    """With all that it knows of the service behind it."""
    made = guardrails()
    first = chain(the_settings({"kind": "http", "url": "http://x/"}, {"kind": "pii"}), made)
    second = chain(the_settings({"kind": "http", "url": "http://x/"}, {"kind": "pii", "action": "log"}), made)

    assert first.rules[0].filter is second.rules[0].filter
    assert first.rules[1].filter is not second.rules[1].filter


def test_a_fallback_on_converse_gets_the_guardrail_of_bedrock_itself() -> None:
    def native(**bedrock: Any) -> tuple[str, str] | None:
        return chain(the_settings(AWS, model={"bedrock": {"model_id": "m", **bedrock}})).native

    assert ("g", "2") == native()
    assert native(wire="openai") is None
    assert chain(the_settings({**AWS, "directions": ["request"]})).native is None
    assert chain(the_settings(AWS, AWS)).native is None  # Converse takes only one


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"patterns": ["a+"]}, "guardrails[0]: matches of the pattern can be longer than 512 characters"),
        ({"patterns": ["("]}, "guardrails[0]: the pattern is not valid"),
        ({"words": ["x"], "allow_patterns": ["("]}, "guardrails[0]: the pattern is not valid"),
    ],
)
def test_an_invalid_pattern_is_reported_by_its_place(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(SettingsError) as refused:
        guardrails().build(the_settings({"kind": "words", **fields}))

    assert refused.value.sentences[0].startswith(fault)


@pytest.mark.parametrize(
    ("module", "fields"),
    [
        ("re2", {"kind": "words", "patterns": ["a"]}),
        ("phonenumbers", {"kind": "pii", "phone_regions": ["DE"]}),
        ("stdnum.nl.bsn", {"kind": "pii", "detect": ["nl_bsn"]}),
    ],
)
def test_what_needs_an_extra_says_which(monkeypatch: pytest.MonkeyPatch, module: str, fields: dict[str, Any]) -> None:
    real = importlib.import_module

    def missing(name: str) -> Any:
        if name == module:
            raise ModuleNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(SettingsError) as refused:
        guardrails().build(the_settings(fields))

    assert refused.value.sentences[0].endswith("Install warmgate[guardrails].")


def test_a_kind_that_names_nothing_looks_for_what_is_written_the_same_everywhere() -> None:
    assert [MAIL] == found_in("pii", f"{MAIL} 111222333")
    assert {"email", "phone", "card", "iban"} == {detector.kind for detector in a_scan().detectors}
