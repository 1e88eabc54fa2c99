from typing import Any

import pytest

from gateway.backends.bedrock.answer import ConverseAnswer, mended
from gateway.backends.bedrock.json_answer import MOST_STARTS, json_answer
from gateway.protocol.errors import ReplyBroken

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
ECHO = '{"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"town":"Paris"}', '{"town":"Paris"}'),
        ('\n {"town": "Paris"}\n', '{"town": "Paris"}'),
        ('```json\n{"town":"Paris"}\n```', '{"town":"Paris"}'),
        ('Here it is: {"town":"{Paris}"} Is that all?', '{"town":"{Paris}"}'),
        (ECHO + '\n{"town":"Paris"}', '{"town":"Paris"}'),
        ("{not this} " + '{"town":"Paris"}', '{"town":"Paris"}'),
        (ECHO, None),
        (f"```\n{ECHO}\n```", None),
        ("Paris.", None),
        ('{"town":', None),
        ("{" * (2 * MOST_STARTS) + '"town":1}', None),
    ],
)
def test_json_is_found_in_what_models_make_of_it(text: str, found: str | None) -> None:
    """Between fences, in a sentence, behind the schema; a schema is no answer to itself."""
    assert found == json_answer(text, SCHEMA)


def test_without_a_schema_any_json_will_do() -> None:
    """Also what looks like one."""
    assert ECHO == json_answer(ECHO, None)


def an_answer(*blocks: dict[str, Any], stop_reason: str = "end_turn") -> ConverseAnswer:
    return ConverseAnswer(blocks, stop_reason, None)


def test_an_answer_is_mended_behind_its_thoughts() -> None:
    """They are kept, in a block of their own."""
    found = mended(an_answer({"text": "<think>hm {}</think>```json\n"}, {"text": '{"town":"Paris"}\n```'}), SCHEMA)

    assert ({"reasoningContent": {"reasoningText": {"text": "hm {}"}}}, {"text": '{"town":"Paris"}'}) == found.blocks


@pytest.mark.parametrize(
    "answer",
    [
        an_answer({"text": '{"town":'}, stop_reason="max_tokens"),
        an_answer({"text": "I ask."}, {"toolUse": {"name": "f"}}, stop_reason="tool_use"),
    ],
)
def test_what_is_cut_or_calls_a_tool_stays(answer: ConverseAnswer) -> None:
    """The caller sees why it is no JSON."""
    assert answer is mended(answer, SCHEMA)


def test_an_answer_without_json_is_not_one() -> None:
    """Another fallback may do better."""
    with pytest.raises(ReplyBroken, match="response_format"):
        mended(an_answer({"text": "Paris."}), SCHEMA)
