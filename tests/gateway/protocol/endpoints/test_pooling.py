import json
import struct
from typing import Any

import pytest

from gateway.protocol.endpoints.pooling import parse_pooling, usage_of_pooling
from gateway.protocol.usage import Usage


def prompt(**fields: Any) -> bytes:
    return parse_pooling(json.dumps({"model": "embed", **fields}).encode()).prompt


class TestWhatIsRead:
    def test_pooling_generates_nothing_and_keeps_nothing(self) -> None:
        """It must not fill the index with blocks that the engine does not have."""
        read = parse_pooling(b'{"model":"embed","input":"Hello","user":"u1","stream":true}')

        assert ("embed", False, 0, "u1") == (read.model, read.streams, read.max_tokens, read.session)
        assert (False, False) == (read.reads_cache, read.writes_cache)

    def test_the_model_may_be_missing(self) -> None:
        """A gateway that serves one knows which is meant."""
        assert "" == parse_pooling(b'{"input":"Hello"}').model


class TestHowMuchThereIsToDo:
    def test_every_form_of_input_counts_with_its_text(self) -> None:
        """A string, strings, token ids, lists of token ids, a conversation."""
        assert b"Hello" == prompt(input="Hello")
        assert b"Hello\xf9world" == prompt(input=["Hello", "world"])
        assert struct.pack("<2I", 7, 8) == prompt(input=[7, 8])
        assert struct.pack("<3I", 7, 2**32 - 1, 8) == prompt(input=[[7], [8]])
        assert b"\xffuser\xfdHello" == prompt(messages=[{"role": "user", "content": "Hello"}])

    @pytest.mark.parametrize(
        "fields",
        [
            {"query": "where", "documents": ["here", "there"]},
            {"text_1": "where", "text_2": ["here", "there"]},
            {"queries": "where", "items": ["here", "there"]},
            {"data_1": "where", "data_2": ["here", "there"]},
        ],
    )
    def test_a_query_stands_before_what_it_is_compared_with(self, fields: dict[str, Any]) -> None:
        """Under each of the names that engines have for them."""
        assert b"wherehere\xf9there" == prompt(**fields)

    @pytest.mark.parametrize("value", [[-1], [[-1]], [[1], 2], [[1], ["a"]], {"content": []}, 5, [], [None], ["a", 1]])
    def test_what_is_no_prompt_is_for_the_engine_to_judge(self, value: Any) -> None:
        """It stands as a digest, and no error is ours."""
        assert 33 == len(prompt(input=value))

    def test_nothing_to_pool_is_no_work(self) -> None:
        """The engine will say what is missing."""
        assert b"" == prompt()


class TestUsage:
    @pytest.mark.parametrize(
        ("body", "usage"),
        [
            (b'{"data":[],"usage":{"prompt_tokens":4,"total_tokens":5,"completion_tokens":0}}', Usage(4, 0)),
            (b'{"results":[],"usage":{"total_tokens":5}}', Usage(5, 0)),
            (b'{"results":[],"usage":{}}', None),
            (b'{"results":[]}', None),
            (b"[]", None),
        ],
    )
    def test_a_total_is_all_prompt(self, body: bytes, usage: Usage | None) -> None:
        """Rerankers of some engines say nothing else."""
        assert usage == usage_of_pooling(body)
