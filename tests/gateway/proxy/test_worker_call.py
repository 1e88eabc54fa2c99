"""The request in the form in which workers receive it."""

import json

import pytest

from gateway.backends.backend import Call
from gateway.models.engine_field_rules import EngineFieldRules
from gateway.protocol.body import parse_chat, without_prompt
from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.proxy.worker_call import prioritized
from routing.request import HIGH, LOW, NORMAL
from tests.fakes.backends import Answers
from tests.gateway.examples import CHAT, a_model
from tests.gateway.proxy.stage import CHAT_PATH, Stage
from tests.routing.examples import a_request

AUDIO_PATH = "/v1/audio/transcriptions"
LOW_FIRST = EngineFieldRules(frozenset({"priority"}), "low_first")


def a_call(body: bytes, path: str = CHAT_PATH) -> Call:
    return Call(method=b"POST", path=path.encode(), headers=[], body=body, streams=False, model="tiny")


@pytest.mark.parametrize(("priority", "number"), [(HIGH, b"-1"), (NORMAL, b"0"), (LOW, b"1")])
def test_engines_receive_the_priority_of_the_request(priority: int, number: bytes) -> None:
    """Every other byte of the body stays."""
    model, call = a_model(), a_call(CHAT)
    model.engine_fields = LOW_FIRST
    sent = prioritized(call, ENDPOINTS[CHAT_PATH], model, parse_chat(CHAT), a_request().changed(priority=priority))

    assert b'{"priority":' + number + b"," + CHAT[1:] == sent.body


def test_the_priority_of_the_caller_is_replaced() -> None:
    """Also if the model allows callers to send the field: a team cannot raise its priority in the engine."""
    raw = CHAT[:-1] + b',"priority":-99,"priority":"x"}'
    model, call = a_model(), a_call(raw)
    model.engine_fields = LOW_FIRST
    sent = prioritized(call, ENDPOINTS[CHAT_PATH], model, parse_chat(raw), a_request())

    assert CHAT[:-1] + b',"priority":0,"priority":0}' == sent.body


def test_engines_without_priorities_receive_none() -> None:
    call = a_call(CHAT)

    assert call is prioritized(call, ENDPOINTS[CHAT_PATH], a_model(), parse_chat(CHAT), a_request())


def test_forms_have_no_priority() -> None:
    model, call = a_model(), a_call(b"--x", AUDIO_PATH)
    model.engine_fields = LOW_FIRST

    assert call is prioritized(call, ENDPOINTS[AUDIO_PATH], model, without_prompt("tiny"), a_request())


async def test_only_workers_receive_the_priority() -> None:
    """External fallbacks do not know the field."""
    worker, fallback = Answers(503), Answers()
    model = a_model(worker, fallback=fallback)
    model.engine_fields = LOW_FIRST
    await Stage(model).ask(CHAT)

    assert [{"priority": 0, **json.loads(CHAT)}] == [json.loads(call.body) for call in worker.calls]
    assert [CHAT] == [call.body for call in fallback.calls]


async def test_workers_receive_the_session_in_one_header() -> None:
    worker = Answers()
    headers = [(b"x-claude-code-session-id", b"s-1"), (b"session-id", b"s-1")]
    await Stage(a_model(worker)).ask(CHAT, headers=headers)
    await Stage(a_model(worker)).ask(CHAT)
    sessions = [[value for name, value in call.headers if b"session" in name] for call in worker.calls]

    assert [[b"s-1"], []] == sessions
