"""What the body of a text completion asks for."""

import json
from typing import Any

import pytest

from gateway.models.tokenizing.asked import AskedIds, AskedTexts
from gateway.models.tokenizing.completion_body import asked_of_completion
from gateway.models.tokenizing.exactness import Unknowable


def asked(**fields: Any) -> AskedIds | AskedTexts:
    return asked_of_completion(json.dumps({"model": "m", **fields}).encode())


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("hi", AskedTexts(["hi"])),
        ("", AskedTexts([""])),
        (["a", "b"], AskedTexts(["a", "b"])),
        ([1, 2], AskedIds([[1, 2]])),
        ([[1, 2], [3]], AskedIds([[1, 2], [3]])),
    ],
)
def test_a_prompt_comes_in_four_forms(prompt: Any, expected: AskedIds | AskedTexts) -> None:
    """One or several, text or ids."""
    assert expected == asked(prompt=prompt)


def test_special_tokens_can_be_left_out() -> None:
    """They are there unless the caller says otherwise."""
    assert AskedTexts(["hi"], add_special_tokens=False) == asked(prompt="hi", add_special_tokens=False)


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("malformed", {}),
        ("malformed", {"prompt": []}),
        ("malformed", {"prompt": [1, "a"]}),
        ("malformed", {"prompt": {"a": 1}}),
        ("embeds", {"prompt": "a", "prompt_embeds": "AAAA"}),
        ("truncated", {"prompt": "a", "truncate_prompt_tokens": 1}),
        ("unsupported", {"prompt": "a", "suffix": "b"}),
    ],
)
def test_what_is_more_than_its_text_is_refused(reason: str, fields: dict[str, Any]) -> None:
    """With its reason."""
    with pytest.raises(Unknowable, match=reason):
        asked(**fields)
