import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.protocol.body import Body, parse_chat, parse_chats, parse_completion, without_prompt
from gateway.protocol.errors import InvalidField, MalformedBody

HELLO = {"role": "user", "content": "hello"}


def chat(**fields: Any) -> Body:
    return parse_chat(json.dumps({"model": "tiny", "messages": [HELLO], **fields}).encode())


def completion(**fields: Any) -> Body:
    return parse_completion(json.dumps({"model": "tiny", "prompt": "once", **fields}).encode())


class TestWhatIsRead:
    def test_the_smallest_chat_has_plain_defaults(self) -> None:
        """A body of model and messages does not stream, sets no limit, asks for one choice and may use the cache."""
        read = chat()

        assert ("tiny", False, None, False, False) == (
            read.model,
            read.streams,
            read.max_tokens,
            read.asks_usage,
            read.has_stream_options,
        )
        assert (None, None, 1, True) == (read.session, read.cache_salt, read.n, read.reads_cache)

    def test_null_is_the_same_as_absent(self) -> None:
        """Every optional field may be null, as SDKs send it."""
        nulls = dict.fromkeys(
            ["stream", "max_tokens", "max_completion_tokens", "n", "user", "prompt_cache_key", "cache_salt", "echo"]
        )

        assert chat() == chat(**nulls)

    def test_of_both_limits_the_larger_counts(self) -> None:
        """vLLM goes by the one, SGLang by the other: less must not be reserved than the engine may generate."""
        assert 100 == chat(max_tokens=100, max_completion_tokens=7).max_tokens
        assert 100 == chat(max_tokens=7, max_completion_tokens=100).max_tokens
        assert 100 == chat(max_tokens=100).max_tokens
        assert 7 == chat(max_completion_tokens=7).max_tokens

    def test_no_tokens_are_no_limit_of_a_chat(self) -> None:
        """Engines treat them so. For a text completion 0 is a limit: it only echoes the prompt."""
        assert None is chat(max_tokens=0).max_tokens
        assert None is chat(max_completion_tokens=0).max_tokens
        assert 50_000 == chat(max_completion_tokens=0, max_tokens=50_000).max_tokens
        assert 0 == completion(max_tokens=0, echo=True).max_tokens

    def test_a_text_completion_knows_max_tokens_only(self) -> None:
        """The engines pass over the other, so a limit must not believe it."""
        assert 100 == completion(max_tokens=100, max_completion_tokens=7).max_tokens
        assert None is completion(max_completion_tokens=7).max_tokens

    @pytest.mark.parametrize(
        ("prompt", "expected"),
        [("Hi", 2), (["Hi"], 2), (["Hi", "Ho", "Hi"], 6), ([1, 2, 3], 2), ([[1, 2], [3]], 4)],
    )
    def test_every_prompt_has_its_answers(self, prompt: Any, expected: int) -> None:
        """`n` of each."""
        assert expected == completion(prompt=prompt, n=2).n

    def test_every_chat_of_a_batch_has_its_answers(self) -> None:
        raw = json.dumps({"model": "tiny", "messages": [[HELLO], [HELLO, HELLO], [HELLO]], "n": 2}).encode()

        assert 6 == parse_chats(raw).n

    def test_a_whole_float_counts_as_an_integer(self) -> None:
        """16.0 is 16, as it is to the engines."""
        assert 16 == chat(max_tokens=16.0).max_tokens
        assert isinstance(chat(max_tokens=16.0).max_tokens, int)

    def test_usage_is_asked_for_by_stream_options(self) -> None:
        """Only true counts; the presence of the key is reported separately."""
        wished = chat(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
        declined = chat(stream=True, stream_options={"include_usage": False})
        null = chat(stream=True, stream_options=None)

        assert (True, True) == (wished.asks_usage, wished.has_stream_options)
        assert (False, True) == (declined.asks_usage, declined.has_stream_options)
        assert (False, True) == (null.asks_usage, null.has_stream_options)

    def test_prompt_cache_key_names_the_session_before_user(self) -> None:
        """The more specific field wins; an empty one is ignored."""
        assert "k" == chat(prompt_cache_key="k", user="u").session
        assert "u" == chat(prompt_cache_key="", user="u").session
        assert chat(user="").session is None

    @pytest.mark.parametrize("parse", [chat, completion])
    def test_session_id_names_the_session_before_all_other_fields(self, parse: Callable[..., Body]) -> None:
        """Workers do not see the field, whatever its value."""
        said = [parse(session_id=value, prompt_cache_key="k") for value in ("s", "", None)]

        assert ["s", "k", "k"] == [body.session for body in said]
        assert {True} == {body.hides_session_id for body in said}
        assert {()} == {body.engine_fields for body in said}
        assert not parse(prompt_cache_key="k").hides_session_id

    @pytest.mark.parametrize("value", [1, {"id": "s"}, ["s"], True])
    def test_session_id_must_be_a_string(self, value: Any) -> None:
        with pytest.raises(InvalidField, match=r"^'session_id' must be a string$") as caught:
            chat(session_id=value)

        assert "session_id" == caught.value.param

    def test_the_end_user_is_the_safety_identifier_before_user(self) -> None:
        """OpenAI has replaced one field by the other; an empty one is ignored."""
        assert "s" == chat(safety_identifier="s", user="u").user
        assert "u" == chat(user="u").user
        assert chat(safety_identifier="", user="").user is None

    @pytest.mark.parametrize(
        ("fields", "reads_cache"),
        [
            ({"prompt_logprobs": 0}, False),
            ({"prompt_logprobs": 5}, False),
            ({"echo": True, "logprobs": 0}, False),
            ({"echo": True, "logprobs": True}, False),
            ({"echo": True, "logprobs": False}, True),
            ({"echo": True}, True),
            ({"echo": False, "logprobs": 3}, True),
            ({"logprobs": 3}, True),
        ],
    )
    def test_log_probabilities_of_the_prompt_bypass_the_cache(self, fields: dict[str, Any], reads_cache: bool) -> None:
        """vLLM computes the whole prompt when it must give its log probabilities."""
        assert reads_cache == completion(**fields).reads_cache

    def test_unknown_fields_of_any_shape_pass(self) -> None:
        """Valid JSON that routing does not read never fails, also beyond what Python numbers hold."""
        odd = (
            b'{"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"a","x":1e999}],"y":1e999}],'
            b'"tools":[{"minimum":1e999,"maximum":123456789012345678901234567890}],'
            b'"z":{"deep":[-0.0,1E+400,' + b"9" * 6000 + b"]}}"
        )

        assert "tiny" == parse_chat(odd).model

    def test_the_last_of_two_equal_keys_counts(self) -> None:
        """Python's json, which the engines use, does the same."""
        raw = b'{"model":"first","messages":[{"role":"user"}],"mod\\u0065l":"second"}'

        assert "second" == parse_chat(raw).model

    def test_white_space_around_everything_is_fine(self) -> None:
        """JSON may be spread out."""
        raw = b' \r\n{ "model" :\t"tiny" , "messages" : [ { "role" : "user" , "content" : null } ] } \n'

        assert "tiny" == parse_chat(raw).model

    def test_embeddings_may_stand_in_for_the_prompt(self) -> None:
        """vLLM takes ``prompt_embeds`` without ``prompt``; different ones share nothing."""
        one, other = (parse_completion(b'{"model":"m","prompt_embeds":"%s"}' % data) for data in (b"AAAA", b"AAAB"))

        assert one.prompt != other.prompt


class TestMalformed:
    @pytest.mark.parametrize(
        ("raw", "complaint"),
        [
            (b"", "JSON is malformed: unexpected end (byte 0)"),
            (b"\xef\xbb\xbf{}", "JSON is malformed: it starts with a byte order mark (byte 0)"),
            (b'{"model":"tiny"', "JSON is malformed: unexpected end (byte 15)"),
            (b'{"model":"a","x":NaN}', "JSON is malformed: invalid character (byte 17)"),
            (b'{"model":"a","x":0123}', "JSON is malformed: invalid number (byte 18)"),
            (b'{"model":"a"}}', "JSON is malformed: trailing characters (byte 14)"),
            (b'{"model":"a","x":"\\q"}', "JSON is malformed: invalid escaped character (byte 19)"),
            (b'{"model":"tiny","x":"\xff"}', "JSON is malformed: invalid UTF-8 (byte 21)"),
            (b'{"model":"\xc3"}', "JSON is malformed: invalid UTF-8 (byte 10)"),
            (b"[]", "The body must be an object, not a list"),
            (b'"tiny"', "The body must be an object, not a string"),
        ],
    )
    @pytest.mark.parametrize("parse", [parse_chat, parse_completion])
    def test_a_body_that_is_no_json_object_says_where(
        self, parse: Callable[[bytes], Body], raw: bytes, complaint: str
    ) -> None:
        """The message gives the byte at which reading stopped."""
        with pytest.raises(MalformedBody) as caught:
            parse(raw)

        assert complaint == caught.value.message

    @pytest.mark.parametrize(
        "raw",
        [
            b'{"model":"a","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            b'{"model":"a","tools":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
            b'{"model":"a","messages":[{"role":"user","content":[{"type":"image_url","x":'
            + b"[" * 300
            + b"]" * 300
            + b"}]}]}",
        ],
        ids=["skipped", "tools", "content"],
    )
    def test_nesting_beyond_reason_is_an_error_of_the_caller(self, raw: bytes) -> None:
        """A deep body ends in 400 and takes nothing down."""
        with pytest.raises(MalformedBody, match="nested too deeply"):
            parse_chat(raw)

    def test_errors_show_nothing_of_the_prompt(self) -> None:
        """Neither the message nor a chained cause carries text of the body."""
        with pytest.raises(MalformedBody) as caught:
            parse_chat(b'{"model":"a","messages":[{"role":"user","content":"secret \xff"}]}')

        assert "secret" not in caught.value.message
        assert caught.value.__cause__ is None


class TestInvalidField:
    @pytest.mark.parametrize(
        ("fields", "param", "complaint"),
        [
            ({"model": "m" * 513}, "model", "'model' is longer than 512 characters"),
            ({"cache_salt": "s" * 513}, "cache_salt", "'cache_salt' is longer than 512 characters"),
            ({"model": 5}, "model", "'model' must be a string or null, not an integer"),
            ({"messages": None}, "messages", "'messages' must be a list of at least one message"),
            ({"messages": []}, "messages", "'messages' must be a list of at least one message"),
            ({"messages": {}}, "messages", "'messages' must be a list or null, not an object"),
            ({"messages": [HELLO, {}]}, "messages[1].role", "'messages[1].role' is missing"),
            ({"messages": [HELLO, {"role": 5}]}, "messages[1].role", "must be a string, not an integer"),
            ({"messages": [HELLO, HELLO, "x"]}, "messages[2]", "'messages[2]' must be an object, not a string"),
            ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "not an integer"),
            ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]", "not an integer"),
            ({"stream": "yes"}, "stream", "'stream' must be true or false or null, not a string"),
            ({"max_tokens": "16"}, "max_tokens", "'max_tokens' must be a number or null, not a string"),
            ({"max_tokens": 1.5}, "max_tokens", "must be an integer between 0 and 2147483647"),
            ({"max_tokens": -1}, "max_tokens", "must be an integer between 0 and 2147483647"),
            ({"max_completion_tokens": 1e300}, "max_completion_tokens", "must be an integer between 0"),
            ({"n": 0}, "n", "'n' must be an integer between 1 and 2147483647"),
            ({"n": True}, "n", "'n' must be a number or null, not true or false"),
            ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage", "must be true or false"),
            ({"stream_options": []}, "stream_options", "must be an object or null, not a list"),
            ({"user": 5}, "user", "'user' must be a string or null, not an integer"),
            ({"cache_salt": 5}, "cache_salt", "'cache_salt' must be a string or null, not an integer"),
        ],
    )
    def test_a_wrong_field_of_a_chat_is_named(self, fields: dict[str, Any], param: str, complaint: str) -> None:
        """The error has the path of the field as *param* and says what is expected."""
        with pytest.raises(InvalidField) as caught:
            chat(**fields)

        assert param == caught.value.param
        assert complaint in caught.value.message

    @pytest.mark.parametrize("parse", [parse_chat, parse_completion])
    def test_an_empty_object_lacks_something(self, parse: Callable[[bytes], Body]) -> None:
        """``{}`` is JSON but no request."""
        with pytest.raises(InvalidField):
            parse(b"{}")

    @pytest.mark.parametrize(
        ("prompt", "param"),
        [
            (None, "prompt"),
            ([], "prompt"),
            (5, "prompt"),
            ({}, "prompt"),
            (["a", 5], "prompt"),
            ([1, [2]], "prompt"),
            ([-1], "prompt"),
            ([2**32], "prompt"),
            ([[1], [2**70]], "prompt"),
            ([True], "prompt[0]"),
            ([1.5], "prompt[0]"),
            ([["a"]], "prompt[0][0]"),
        ],
    )
    def test_a_prompt_of_the_wrong_kind_is_named(self, prompt: Any, param: str) -> None:
        """A prompt is a string, strings, token ids or lists of token ids, and nothing between."""
        with pytest.raises(InvalidField) as caught:
            completion(prompt=prompt)

        assert param == caught.value.param


class TestWithoutPrompt:
    def test_any_worker_will_do(self) -> None:
        """There is nothing to route by, nothing is generated, and no cache is read or filled."""
        body = without_prompt("tiny")

        assert ("tiny", False, 0, b"", None) == (body.model, body.streams, body.max_tokens, body.prompt, body.session)
        assert (False, False, True) == (body.reads_cache, body.writes_cache, body.asks_usage)

    def test_a_model_may_be_missing(self) -> None:
        """The gateway may know the only model."""
        assert "" == without_prompt(None).model


def test_completions_fill_the_cache_and_go_on_from_nothing() -> None:
    """Only other endpoints say otherwise."""
    for body in (chat(), completion()):
        assert (True, None) == (body.writes_cache, body.previous_response_id)


def test_long_names_of_sessions_and_users_become_digests() -> None:
    """They are only compared, and must not fill the memory."""
    body = parse_chat(b'{"model":"m","user":"%b","messages":[{"role":"user"}]}' % (b"u" * 100_000))

    assert body.session == body.user
    assert (True, 71) == ((body.user or "").startswith("sha256:"), len(body.user or ""))
    assert "u" * 512 == parse_chat(b'{"model":"m","user":"%b","messages":[{"role":"user"}]}' % (b"u" * 512)).user
