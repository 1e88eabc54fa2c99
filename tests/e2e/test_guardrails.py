"""Guardrails from outside: what reaches the worker, what reaches the caller, and what is written of it."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from openai import AsyncOpenAI, BadRequestError

from gateway.app.application import create_app
from gateway.app.config_source import ConfigSource
from gateway.app.guardrails import Guardrails
from gateway.settings import build
from tests.e2e.stack import Stack, gateway
from tests.fakes.bedrock import FakeBedrock, Says
from tests.fakes.speaker import Speaker, chunk, chunks, events_of, message, said_in, speaking
from tests.gateway.asgi import App, Caller, running

CARD = "4111 1111 1111 1111"
MAIL = "jane.doe@example.org"
PII: Mapping[str, Any] = {"name": "pii", "kind": "pii"}
SECRETS: Mapping[str, Any] = {"name": "secrets", "kind": "secrets", "action": "block"}


def body(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": text}], **more}


@asynccontextmanager
async def guarded(
    speaker: Speaker, *guardrails: Mapping[str, Any], model: Mapping[str, Any] | None = None, **groups: Any
) -> AsyncIterator[Stack]:
    """A gateway before *speaker*, whose model has all *guardrails*."""
    names = [each["name"] for each in guardrails]
    reported = {"guardrails": names, **(model or {})}
    async with (
        speaking(speaker),
        gateway([speaker.url], model=reported, guardrails=list(guardrails), **groups) as served,
    ):
        yield served


async def test_what_is_redacted_of_a_request_never_reaches_the_worker() -> None:
    """Neither as a message, nor as a part of one, nor in the arguments of a call; all else goes on as it is."""
    speaker = Speaker(whole=lambda _: message("fine"))
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": json.dumps({"card": CARD})}}
    messages = [
        {"role": "system", "content": f"Write to {MAIL}."},
        {"role": "user", "content": [{"type": "text", "text": f"My card is {CARD}."}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    async with guarded(speaker, PII) as served:
        response = await served.http.post("/v1/chat/completions", json={**body(), "messages": messages, "seed": 1e3})

        assert 200 == response.status_code
        asked = speaker.asked[0]
        assert "Write to [EMAIL]." == asked["messages"][0]["content"]
        assert "My card is [CARD]." == asked["messages"][1]["content"][0]["text"]
        assert {"card": "[CARD]"} == json.loads(asked["messages"][2]["tool_calls"][0]["function"]["arguments"])
        assert 1e3 == asked["seed"]
        lines = await served.lines(1)
        assert ["pii:request:redact"] == lines[0]["guardrails"]
        assert {'{action="redact",direction="request",guardrail="pii"}': 1.0} == await served.metric(
            "warmgate_guardrail_actions_total"
        )
        assert CARD not in served.log.getvalue().decode()


async def test_a_request_that_is_blocked_reaches_no_one() -> None:
    """The caller learns which guardrail it was, and not what it found."""
    speaker = Speaker()
    async with guarded(speaker, SECRETS) as served:
        with pytest.raises(BadRequestError) as refused:
            await served.openai.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "use AKIAIOSFODNN7EXAMPLE"}]
            )

        assert "content_policy_violation" == refused.value.code
        assert "'secrets'" in str(refused.value)
        assert "AKIA" not in str(refused.value)
        assert [] == speaker.asked
        line = (await served.lines(1))[0]
        assert (400, "ContentBlocked", ["secrets:request:block"]) == (line["status"], line["error"], line["guardrails"])


async def test_a_whole_answer_comes_without_what_is_redacted() -> None:
    reported = message(f"Write to {MAIL}!", logprobs={"content": [{"token": MAIL}]})
    speaker = Speaker(whole=lambda _: reported)
    async with guarded(speaker, PII) as served:
        answer = await served.openai.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "?"}], logprobs=True
        )

        assert "Write to [EMAIL]!" == answer.choices[0].message.content
        assert answer.choices[0].logprobs is None
        assert answer.usage is not None
        assert 16 == answer.usage.total_tokens


async def test_a_stream_comes_without_what_is_redacted_however_it_is_cut() -> None:
    """Words flow on; only what may yet become a match waits."""
    text = f"Your card {CARD} and mail {MAIL} are known."
    speaker = Speaker(pieces=lambda _: chunks(*text))
    async with guarded(speaker, PII) as served:
        response = await served.http.post("/v1/chat/completions", json=body(stream=True))

        assert "Your card [CARD] and mail [EMAIL] are known." == said_in(response.content)
        assert response.content.endswith(b"data: [DONE]\n\n")
        assert "stop" == events_of(response.content)[-1]["choices"][0]["finish_reason"]
        assert ["pii:response:redact"] == (await served.lines(1))[0]["guardrails"]


async def test_a_stream_that_is_blocked_ends_as_openai_ends_it() -> None:
    """With `content_filter` for a reason; what came before the match has been seen, nothing of the match has."""
    speaker = Speaker(pieces=lambda _: chunks("The key ", "is AKIA", "IOSFODNN7", "EXAMPLE", " and more"))
    async with guarded(speaker, SECRETS) as served:
        response = await served.http.post("/v1/chat/completions", json=body(stream=True))

        assert "The key is " == said_in(response.content)
        assert "content_filter" == events_of(response.content)[-1]["choices"][0]["finish_reason"]
        assert b": x-warmgate-guardrail: secrets\n\n" in response.content
        assert response.content.endswith(b"data: [DONE]\n\n")
        line = (await served.lines(1))[0]
        assert (200, "ContentBlocked", ["secrets:response:block"]) == (
            line["status"],
            line["error"],
            line["guardrails"],
        )


async def test_what_is_only_logged_passes_as_it_is() -> None:
    """Byte for byte, and without waiting."""
    pieces = chunks("Your card ", "4111 1111", " 1111 1111.")
    speaker = Speaker(pieces=lambda _: pieces)
    async with guarded(speaker, {**PII, "action": "log"}) as served:
        response = await served.http.post("/v1/chat/completions", json=body(f"mine is {CARD}", stream=True))

        assert b"".join(pieces) == response.content
        assert f"mine is {CARD}" == speaker.asked[0]["messages"][0]["content"]
        assert ["pii:request:log", "pii:response:log"] == (await served.lines(1))[0]["guardrails"]


async def test_a_team_brings_its_own_guardrails() -> None:
    """Beside those of the model; another team has none of them."""
    speaker = Speaker(whole=lambda _: message("fine"))
    key, other = "sk-of-the-guarded-team", "sk-of-the-other-team"
    teams = [
        {"name": "guarded", "guardrails": ["pii"], "keys": [{"id": "one", "secret": key}]},
        {"name": "open", "keys": [{"id": "two", "secret": other}]},
    ]
    async with guarded(speaker, PII, model={"guardrails": []}, teams=teams) as served:
        for secret in (key, other):
            await served.http.post(
                "/v1/chat/completions", json=body(MAIL), headers={"authorization": f"Bearer {secret}"}
            )

        assert ["[EMAIL]", MAIL] == [asked["messages"][0]["content"] for asked in speaker.asked]


async def test_token_ids_are_refused_where_no_one_could_look_at_them() -> None:
    async with guarded(Speaker(), PII) as served:
        response = await served.http.post("/v1/completions", json={"model": "tiny", "prompt": [1, 2, 3]})

        assert (400, "prompt") == (response.status_code, response.json()["error"]["param"])


async def test_the_responses_api_is_guarded_too() -> None:
    """Deltas, what says them once more, and the response at the end."""
    item: dict[str, Any] = {"item_id": "i", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": f"It is {MAIL}.", "logprobs": []}
    output = [{"type": "message", "id": "i", "role": "assistant", "content": [part]}]
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "r", "output": []}},
        *[{"type": "response.output_text.delta", "delta": letter, **item} for letter in f"It is {MAIL}."],
        {"type": "response.output_text.done", "text": f"It is {MAIL}.", **item},
        {"type": "response.completed", "response": {"id": "r", "output": output}},
    ]

    def pieces(_: object) -> list[bytes]:
        numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in numbered]

    async with guarded(Speaker(pieces=pieces), PII) as served:
        response = await served.http.post("/v1/responses", json={"model": "tiny", "input": "?", "stream": True})

        reported = events_of(response.content)
        assert "It is [EMAIL]." == "".join([event["delta"] for event in reported if event["type"].endswith(".delta")])
        assert "It is [EMAIL]." == reported[-2]["text"]
        assert "It is [EMAIL]." == reported[-1]["response"]["output"][0]["content"][0]["text"]
        assert list(range(len(reported))) == [event["sequence_number"] for event in reported]


async def test_the_messages_api_is_guarded_too() -> None:
    """Each content block by itself."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": letter}}
            for letter in f"Ask {MAIL}"
        ],
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]

    def pieces(_: object) -> list[bytes]:
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]

    async with guarded(Speaker(pieces=pieces), PII) as served:
        asked = {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": MAIL}], "stream": True}
        response = await served.http.post("/v1/messages", json=asked)

        reported = events_of(response.content)
        deltas = [event["delta"]["text"] for event in reported if event["type"] == "content_block_delta"]
        assert "Ask [EMAIL]" == "".join(deltas)
        assert [event["type"] for event in events[:2]] == [event["type"] for event in reported[:2]]
        assert [event["type"] for event in events[-3:]] == [event["type"] for event in reported[-3:]]


async def test_somebody_elses_filter_sees_requests_and_answers() -> None:
    """A stream waits for it, and comes with its texts in place of its own."""

    def judged(asked: dict[str, Any]) -> dict[str, Any]:
        if any("bomb" in text for text in asked["texts"]):
            return {"action": "block"}
        if any("secret" in text for text in asked["texts"]):
            return {"action": "redact", "texts": [text.replace("secret", "(…)") for text in asked["texts"]]}
        return {"action": "pass"}

    judge = Speaker(whole=judged)
    speaker = Speaker(pieces=lambda _: chunks("a sec", "ret ", "thing"))
    async with speaking(judge):
        filtered = {"name": "judge", "kind": "http", "url": f"{judge.url}/judge", "api_key": "k-1"}
        async with guarded(speaker, filtered) as served:
            response = await served.http.post("/v1/chat/completions", json=body("my secret", stream=True))
            refused = await served.http.post("/v1/chat/completions", json=body("a bomb", stream=True))

        assert "my (…)" == speaker.asked[0]["messages"][0]["content"]
        assert "a (…) thing" == said_in(response.content)
        assert (400, "content_policy_violation") == (refused.status_code, refused.json()["error"]["code"])
        assert {"direction": "request", "texts": ["my secret"], "team": None, "model": "tiny"} == judge.asked[0]
        assert "Bearer k-1" == judge.headers[0]["authorization"]


@pytest.mark.parametrize(("on_unavailable", "status"), [("fail_closed", 503), ("fail_open", 200)])
async def test_a_filter_that_is_away_lets_pass_what_the_settings_say(on_unavailable: str, status: int) -> None:
    speaker = Speaker(whole=lambda _: message("fine"))
    away = {"name": "judge", "kind": "http", "url": "http://127.0.0.1:9/", "on_unavailable": on_unavailable}
    async with guarded(speaker, away) as served:
        response = await served.http.post("/v1/chat/completions", json=body())

        assert status == response.status_code
        assert {'{guardrail="judge"}'} == set(await served.metric("warmgate_guardrail_failures_total"))


async def test_arguments_of_a_call_stay_json() -> None:
    """Also where a number stands without quotes, and where an escape ends right before."""
    arguments = '{"card":4111111111111111,"note":"line\\n4111111111111111","to":"\\n' + MAIL + '"}'

    def pieces(_: object) -> list[bytes]:
        calls = [[{"index": 0, "function": {"arguments": letter}}] for letter in arguments]
        return [*[chunk(tool_calls=call) for call in calls], chunk(finish="tool_calls"), b"data: [DONE]\n\n"]

    async with guarded(Speaker(pieces=pieces), PII) as served:
        response = await served.http.post("/v1/chat/completions", json=body(stream=True))

        deltas = [event["choices"][0]["delta"] for event in events_of(response.content)]
        said = "".join([call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", ())])
        assert {"card": "[CARD]", "note": "line\n[CARD]", "to": "\n[EMAIL]"} == json.loads(said)


async def test_openais_sdk_reads_a_guarded_stream() -> None:
    speaker = Speaker(pieces=lambda _: chunks("mail ", *MAIL))
    async with guarded(speaker, PII) as served:
        client: AsyncOpenAI = served.openai
        stream = await client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "?"}], stream=True
        )
        said = "".join([each.choices[0].delta.content or "" async for each in stream if each.choices])

        assert "mail [EMAIL]" == said


async def test_a_stream_that_goes_on_elsewhere_is_guarded_across_the_place() -> None:
    """Half of the card came from a worker that died, the other half from the one that went on."""

    seen = asyncio.Event()

    def says(asked: dict[str, Any]) -> list[bytes]:
        if asked.get("continue_final_message"):
            return chunks("1111 1111", ", keep it.")
        return [chunk("", role="assistant"), chunk("My card is "), chunk("4111 1111 ")]

    def dies(asked: dict[str, Any]) -> asyncio.Event | None:
        return None if asked.get("continue_final_message") else seen

    async with speaking(Speaker(pieces=says, dies=dies)) as one, speaking(Speaker(pieces=says, dies=dies)) as other:
        reported = {"guardrails": ["pii"], "continuation": "text"}
        async with gateway([one.url, other.url], model=reported, guardrails=[PII]) as served:
            got = b""
            async with served.http.stream("POST", "/v1/chat/completions", json=body(stream=True)) as response:
                async for data in response.aiter_bytes():
                    got += data
                    if b"is " in got:
                        seen.set()

            assert "My card is [CARD], keep it." == said_in(got)
            (line,) = await served.lines(1)
            assert (1, ["pii:response:redact"]) == (line["continued"], line["guardrails"])


async def test_a_reload_changes_guardrails(tmp_path: Path) -> None:
    """From one request to the next, and all of them or none."""
    speaker = Speaker(whole=lambda _: message("fine"))
    async with speaking(speaker):
        model = {"name": "tiny", "workers": [{"url": speaker.url}]}
        path = tmp_path / "warmgate.yaml"
        path.write_text(yaml.safe_dump({"models": [model], "health": {"interval_s": 0.2}}))
        configuration = ConfigSource(path, {})
        app = create_app(configuration.load(), configuration=configuration, log_sink=io.BytesIO())
        async with running(app):
            assert MAIL == await _sent(app, speaker)
            reported = {
                "models": [{**model, "guardrails": ["pii"]}],
                "guardrails": [PII],
                "health": {"interval_s": 0.2},
            }
            path.write_text(yaml.safe_dump(reported))
            async with asyncio.timeout(60):
                while await _sent(app, speaker) != "[EMAIL]":
                    await asyncio.sleep(0.05)


async def _sent(app: App, speaker: Speaker) -> str:
    caller = Caller(json.dumps(body(MAIL)).encode())
    await caller.call(app)
    assert 200 == caller.status, caller.body
    text: str = speaker.asked[-1]["messages"][0]["content"]
    return text


async def test_a_guardrail_of_bedrock_looks_at_workers_traffic() -> None:
    """Each text by itself; what it masks is masked, and what it blocks is blocked."""

    def applied(asked: dict[str, Any]) -> dict[str, Any]:
        text = asked["content"][0]["text"]["text"]
        action = "BLOCKED" if "bomb" in text else "ANONYMIZED"
        policy = {"sensitiveInformationPolicy": {"piiEntities": [{"type": "EMAIL", "action": action}]}}
        reported = {"outputs": [{"text": text.replace(MAIL, "{EMAIL}")}], "assessments": [policy]}
        is_found = MAIL in text or "bomb" in text
        return {"action": "GUARDRAIL_INTERVENED", **reported} if is_found else {"action": "NONE"}

    aws, speaker = Speaker(whole=applied), Speaker(whole=lambda _: message(f"ask {MAIL}"))
    async with speaking(aws):
        reported = {"name": "aws", "kind": "bedrock", "guardrail_id": "gr1", "version": "2", "endpoint_url": aws.url}
        shared = {"region": "us-east-1", "auth": "bearer", "bearer_token": "t"}
        async with guarded(speaker, reported, bedrock=shared) as served:
            response = await served.http.post("/v1/chat/completions", json=body(f"I am {MAIL}"))
            refused = await served.http.post("/v1/chat/completions", json=body("a bomb"))

    assert "I am {EMAIL}" == speaker.asked[0]["messages"][0]["content"]
    assert "ask {EMAIL}" == response.json()["choices"][0]["message"]["content"]
    assert (400, 1) == (refused.status_code, len(speaker.asked))
    assert {"/guardrail/gr1/version/2/apply"} == set(aws.paths)
    assert ["INPUT", "OUTPUT", "INPUT"] == [asked["source"] for asked in aws.asked]


async def test_a_fallback_on_bedrock_gets_its_guardrail_with_the_question() -> None:
    fake = FakeBedrock(Says(("fine",)), bearer="t")
    async with fake.serving():
        aws = {"name": "aws", "kind": "bedrock", "guardrail_id": "gr1", "version": "2", "directions": ["response"]}
        shared = {"region": "us-east-1", "endpoint_url": fake.base_url, "auth": "bearer", "bearer_token": "t"}
        reported = {"guardrails": ["aws"], "workers": [], "bedrock": {"model_id": "amazon.nova-lite-v1:0"}}
        groups = {"bedrock": {**shared, "canary_at_start": False, "canary_every_s": None}}
        async with gateway([], model=reported, guardrails=[aws], **groups) as served:
            for streams in (False, True):
                response = await served.http.post("/v1/chat/completions", json=body(stream=streams))
                assert 200 == response.status_code, response.text
                assert "fine" in response.text

    config = {"guardrailIdentifier": "gr1", "guardrailVersion": "2"}
    assert [config, {**config, "streamProcessingMode": "sync"}] == [
        request.body["guardrailConfig"] for request in fake.requests
    ]


def test_the_example_of_the_readme_is_one() -> None:
    """It loads, and can be made."""
    page = (Path(__file__).parents[2] / "docs/how-to/guardrails.md").read_text(encoding="utf-8")
    example = page.partition("<!-- guardrails-example -->")[2].partition("<!-- /guardrails-example -->")[0]
    settings = build(yaml.safe_load(example.strip().removeprefix("```yaml").removesuffix("```")), {})
    made = Guardrails(httpx.AsyncClient()).build(settings)

    assert made is not None
    assert ["pii", "secrets", "projects", "dlp"] == [each.name for each in settings.guardrails]


async def test_a_team_whose_guardrail_is_gone_is_refused_everything(tmp_path: Path) -> None:
    """It was made by the admin API; then the settings lost all guardrails, as a file or between two starts."""
    speaker = Speaker(whole=lambda _: message("fine"))
    store = {"url": f"sqlite:///{tmp_path / 'warmgate.db'}", "pepper": "p" * 32}
    owner = {"authorization": "Bearer owner-of-the-tests"}
    groups: dict[str, Any] = {"admin": {"keys": [{"role": "owner", "secret": "owner-of-the-tests"}]}, "store": store}
    async with speaking(speaker):
        async with gateway([speaker.url], guardrails=[PII], **groups) as served:
            team = {"name": "blue", "guardrails": ["pii"]}
            made = await served.http.post("/admin/v1/teams", json=team, headers=owner)
            unknown = await served.http.post(
                "/admin/v1/teams", json={"name": "red", "guardrails": ["pi"]}, headers=owner
            )
            key = await served.http.post("/admin/v1/keys", json={"team": "blue"}, headers=owner)
            secret = {"authorization": f"Bearer {key.json()['secret']}"}
            first = await served.http.post("/v1/chat/completions", json=body(MAIL), headers=secret)
        async with gateway([speaker.url], **groups) as served:
            second = await served.http.post("/v1/chat/completions", json=body(MAIL), headers=secret)
            counted = await served.metric("warmgate_guardrail_missing_total")

    assert [201, 400, 200, 503] == [each.status_code for each in (made, unknown, first, second)]
    assert "guardrail_unavailable" == second.json()["error"]["code"]
    assert ["[EMAIL]"] == [asked["messages"][0]["content"] for asked in speaker.asked]
    assert {'{team=""}': 0.0, '{team="blue"}': 1.0} == counted
