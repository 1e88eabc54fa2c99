from typing import Any

import pytest

from gateway.backends.bedrock.conversation import Conversation, converse, tool_names
from gateway.backends.bedrock.family import FAMILIES, OTHER, Family
from gateway.backends.bedrock.message import read_messages
from gateway.backends.bedrock.tool_names import ToolNames
from gateway.protocol.errors import InvalidField
from tests.gateway.backends.bedrock.chats import PDF, PNG

LLAMA, MISTRAL, CLAUDE = FAMILIES["llama"], FAMILIES["mistral"], FAMILIES["claude"]

IMAGE_PART = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
IMAGE = {"image": {"format": "png", "source": {"bytes": PNG}}}
FILE_PART = {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}
DOCUMENT = {"document": {"format": "pdf", "name": "a", "source": {"bytes": PDF}}}

Message = dict[str, Any]


def conversation(*messages: Message, family: Family = OTHER, calls_as_text: bool = False) -> Conversation:
    read = read_messages(list(messages))
    return converse(read, family=family, names=ToolNames(tool_names(read)), calls_as_text=calls_as_text)


def turns(*messages: Message, family: Family = OTHER, calls_as_text: bool = False) -> list[tuple[str, list[Any]]]:
    """Role and blocks of each turn; a block of text is that text."""
    made = conversation(*messages, family=family, calls_as_text=calls_as_text)
    return [(turn["role"], [block.get("text", block) for block in turn["content"]]) for turn in made.turns]


def user(content: object) -> Message:
    return {"role": "user", "content": content}


def assistant(content: str | None, *calls: Message) -> Message:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def call(call_id: str | None, name: str = "add", arguments: str = "{}") -> Message:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, content: object = "4") -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def use(use_id: str, name: str = "add", **arguments: object) -> Message:
    return {"toolUse": {"toolUseId": use_id, "name": name, "input": arguments}}


def answer(use_id: str, *texts: str, **more: object) -> Message:
    return {"toolResult": {"toolUseId": use_id, "content": [{"text": text} for text in texts], **more}}


# --- who speaks when ----------------------------------------------------------------------------------------------


def test_system_texts_at_the_head_are_the_systems() -> None:
    """One for each message and part; the developer is the system by another name."""
    made = conversation(
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "In English."}, {"type": "text", "text": " "}]},
        user("hi"),
    )

    assert ("Be brief.", "In English.") == made.system
    assert [{"role": "user", "content": [{"text": "hi"}]}] == made.turns
    assert not made.uses_tools


def test_a_late_system_message_becomes_user_text_in_place() -> None:
    """Moved to the head it would mean something else."""
    assert [("user", ["a"]), ("assistant", ["b"]), ("user", ["rule", "c"])] == turns(
        user("a"), assistant("b"), {"role": "system", "content": "rule"}, user("c")
    )


def test_consecutive_messages_of_one_side_are_one_turn() -> None:
    assert [("user", ["a", "b"]), ("assistant", ["c", "d"]), ("user", ["e"])] == turns(
        user("a"), user("b"), assistant("c"), assistant("d"), user("e")
    )


def test_the_user_begins() -> None:
    """Some models want a user's turn first, and Converse wants at least one."""
    assert [("user", ["."]), ("assistant", ["Hi!"]), ("user", ["a"])] == turns(assistant("Hi!"), user("a"))
    assert [("user", ["."])] == turns({"role": "system", "content": "Say hello."})


def test_blank_messages_hold_no_turn_but_a_users() -> None:
    """Bedrock refuses blank text; a user who says nothing between two turns still takes his."""
    assert [("user", ["a", "b"])] == turns(user("a"), assistant(" "), {"role": "system", "content": ""}, user("b"))
    assert [("user", ["a"]), ("assistant", ["b", "c"]), ("user", ["d"])] == turns(
        user("a"), assistant("b"), {"role": "system", "content": " "}, assistant("c"), user("d")
    )
    assert [("user", ["."]), ("assistant", ["b"]), ("user", ["."])] == turns(user(""), assistant("b"), user("\n"))


@pytest.mark.parametrize("last", [assistant("Once upon"), assistant(None, call("c"))])
def test_the_assistant_may_not_have_the_last_word(last: Message) -> None:
    """Most models would begin afresh instead of going on."""
    with pytest.raises(InvalidField, match="end with an assistant message"):
        turns(user("a"), last)


# --- calls and results --------------------------------------------------------------------------------------------


def test_results_stand_together_in_the_order_of_the_calls() -> None:
    """Whatever order they come in, and before all else that is said."""
    made = conversation(
        user("a"),
        assistant("Let me see.", call("c1", arguments='{"a": 1}'), call("c2", name="sub")),
        {"role": "system", "content": "rule"},
        result("c2", "2"),
        result("c1", [{"type": "text", "text": "1"}, {"type": "text", "text": "one"}]),
        user("b"),
    )

    assert made.uses_tools
    assert [
        {"role": "user", "content": [{"text": "a"}]},
        {"role": "assistant", "content": [{"text": "Let me see."}, use("c1", a=1), use("c2", "sub")]},
        {"role": "user", "content": [answer("c1", "1", "one"), answer("c2", "2"), {"text": "rule"}, {"text": "b"}]},
    ] == made.turns


def test_calls_of_two_messages_in_a_row_are_one_turns() -> None:
    assert [
        ("user", ["a"]),
        ("assistant", ["x", "y", use("c1"), use("c2")]),
        ("user", [answer("c1", "1"), answer("c2", "2")]),
    ] == turns(user("a"), assistant("x", call("c1")), assistant("y", call("c2")), result("c1", "1"), result("c2", "2"))


def test_a_missing_result_is_made_up() -> None:
    """Bedrock refuses a call without one; where a family has a word for it, it is an error."""
    messages = (user("a"), assistant(None, call("c1"), call("c2")), result("c2"))
    missing = "(the result of this call is missing)"

    assert ("user", [answer("c1", missing), answer("c2", "4")]) == turns(*messages)[2]
    assert ("user", [answer("c1", missing, status="error"), answer("c2", "4")]) == turns(*messages, family=CLAUDE)[2]


def test_an_empty_result_says_so() -> None:
    assert ("user", [answer("c", "(no output)")]) == turns(user("a"), assistant(None, call("c")), result("c", " "))[2]


def test_a_result_without_a_call_becomes_text() -> None:
    """Nothing that a tool said is lost: not without a call, not in the wrong turn, not the second of one call."""
    assert [
        ("user", ["Result of a tool:\n7", "a"]),
        ("assistant", [use("c")]),
        ("user", [answer("c", "4"), "Result of a tool:\n5"]),
        ("assistant", ["b"]),
        ("user", ["Result of a tool:\n6", "Result of the tool f:\n8"]),
    ] == turns(
        result("c", "7"),
        user("a"),
        assistant(None, call("c")),
        result("c", "4"),
        result("c", "5"),
        assistant("b"),
        result("c", "6"),
        {"role": "function", "name": "f", "content": "8"},
    )


def test_an_older_result_is_found_by_its_name() -> None:
    assert [("user", ["a"]), ("assistant", [use("call", a=1)]), ("user", [answer("call", "4")])] == turns(
        user("a"),
        {"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": '{"a": 1}'}},
        {"role": "function", "name": "add", "content": "4"},
    )


def test_ids_are_made_plain_and_unique_on_both_sides() -> None:
    """Engines count calls again in each turn; Bedrock wants each id once, at most 64 long, without odd characters."""
    long = "i" * 80

    assert [
        ("user", ["a"]),
        ("assistant", [use("functions.add:0"), use("c_1")]),
        ("user", [answer("functions.add:0", "1"), answer("c_1", "2")]),
        ("assistant", [use("functions.add:0_2"), use("c_1_2"), use("i" * 64), use("i" * 62 + "_2")]),
        (
            "user",
            [
                answer("functions.add:0_2", "3"),
                answer("c_1_2", "4"),
                answer("i" * 64, "5"),
                answer("i" * 62 + "_2", "6"),
            ],
        ),
    ] == turns(
        user("a"),
        assistant(None, call("functions.add:0"), call("c#1")),
        result("functions.add:0", "1"),
        result("c#1", "2"),
        assistant(None, call("functions.add:0"), call("c 1"), call(long), call(long)),
        result("functions.add:0", "3"),
        result("c 1", "4"),
        result(long, "5"),
        result(long, "6"),
    )


def test_names_of_the_history_are_made_plain() -> None:
    assert ("assistant", [use("c", "get_weather")]) == turns(
        user("a"), assistant(None, call("c", "get weather")), result("c")
    )[1]


# --- families -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [LLAMA, MISTRAL])
def test_results_stand_alone_where_a_family_wants_it(family: Family) -> None:
    """What else is said gets a turn of its own, and the assistant a word between."""
    made = turns(user("a"), assistant(None, call("c")), result("c"), user("b"), family=family)

    assert [("assistant", ["OK."]), ("user", ["b"])] == made[3:]
    assert ["toolResult"] == [key for block in made[2][1] for key in block]


def test_results_alone_need_no_word_between_when_nothing_else_is_said() -> None:
    assert 3 == len(turns(user("a"), assistant(None, call("c")), result("c"), family=LLAMA))


def test_mistral_gets_results_as_json() -> None:
    assert [{"json": {"sum": 4}}, {"json": {"result": "4\nfour"}}, {"json": {"result": "(no output)"}}] == [
        block["toolResult"]["content"][0]
        for block in turns(
            user("a"),
            assistant(None, call("1"), call("2"), call("3")),
            result("1", '{"sum": 4}'),
            result("2", [{"type": "text", "text": "4"}, {"type": "text", "text": "four"}]),
            result("3", ""),
            family=MISTRAL,
        )[2][1]
    ]


def test_llama_has_no_text_beside_its_calls() -> None:
    messages = (user("a"), assistant("Let me see.", call("c")), result("c"))

    assert [("assistant", ["Let me see."]), ("user", ["Continue."]), ("assistant", [use("c")])] == turns(
        *messages, family=LLAMA
    )[1:4]
    assert ("assistant", ["Let me see.", use("c")]) == turns(*messages)[1]


def test_an_image_of_a_result_stays_in_it_where_it_may() -> None:
    """Else it moves to the user's turn, behind the results."""
    messages = (user("a"), assistant(None, call("1"), call("2")), result("1", [IMAGE_PART]), result("2"), user("b"))
    inside = {"toolResult": {"toolUseId": "1", "content": [IMAGE]}}

    assert ("user", [inside, answer("2", "4"), "b"]) == turns(*messages, family=CLAUDE)[2]
    assert ("user", [answer("1", "(no output)"), answer("2", "4"), IMAGE, "b"]) == turns(*messages)[2]


def test_a_document_stands_beside_results_where_it_may() -> None:
    """Always with text beside it, which Converse wants."""
    messages = (user("a"), assistant(None, call("c")), result("c"), user([FILE_PART]))

    assert [("user", [answer("c", "4"), DOCUMENT, "."])] == turns(*messages)[2:]
    assert [("user", [answer("c", "4")]), ("assistant", ["OK."]), ("user", [DOCUMENT, "."])] == turns(
        *messages, family=CLAUDE
    )[2:]


def test_images_are_refused_for_models_without_eyes() -> None:
    with pytest.raises(InvalidField, match="does not accept"):
        turns(user([IMAGE_PART]), family=FAMILIES["gpt-oss"])


def test_a_turn_has_no_more_media_than_bedrock_takes() -> None:
    """Counted as they are sent: two messages may be one turn, and results count."""
    assert 20 == len(turns(user([IMAGE_PART] * 20))[0][1])
    with pytest.raises(InvalidField, match="more than 20 images in one turn"):
        turns(user([IMAGE_PART] * 11), user([IMAGE_PART] * 10))
    with pytest.raises(InvalidField, match="more than 20 images in one turn"):
        turns(user("a"), assistant(None, call("c")), result("c", [IMAGE_PART]), user([IMAGE_PART] * 20), family=CLAUDE)
    with pytest.raises(InvalidField, match="more than 5 files in one turn"):
        turns(user([FILE_PART] * 6))


# --- in words -----------------------------------------------------------------------------------------------------


def test_calls_can_be_reported_in_words() -> None:
    """For a request without tools, whose history would force some on it. Each result stands where it came."""
    made = conversation(
        user("a"),
        assistant("Hm.", call("1", "get weather", '{"city": "Köln"}'), call("2")),
        result("2", ""),
        result("1", [{"type": "text", "text": "rain"}, IMAGE_PART]),
        user("b"),
        calls_as_text=True,
    )

    assert not made.uses_tools
    assert [
        {"role": "user", "content": [{"text": "a"}]},
        {
            "role": "assistant",
            "content": [
                {"text": "Hm."},
                {"text": 'I called the tool get weather with {"city":"Köln"}.'},
                {"text": "I called the tool add with {}."},
            ],
        },
        {
            "role": "user",
            "content": [
                {"text": "Result of the tool add:\n(no output)"},
                {"text": "Result of the tool get weather:\nrain"},
                IMAGE,
                {"text": "b"},
            ],
        },
    ] == made.turns


def test_a_history_in_words_still_takes_turns() -> None:
    assert [("user", ["a"]), ("assistant", ["I called the tool add with {}."]), ("user", ["."])] == turns(
        user("a"), assistant(None, call("c")), user(" "), calls_as_text=True
    )
