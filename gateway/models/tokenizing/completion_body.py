"""Body of ``/v1/completions`` with the fields that determine the prompt."""

from typing import Any

import msgspec

from gateway.models.tokenizing.asked import AskedIds, AskedTexts
from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.json_body import decoded


def asked_of_completion(raw: bytes) -> AskedIds | AskedTexts:
    """Return the prompts in the body *raw*, which are token ids or texts. O(bytes).

    Raises:
        Unknowable: if *raw* is malformed, has embeddings or a suffix, or asks for a truncated prompt.
    """
    body = decoded(raw, _decoder)
    if body.prompt_embeds is not None:
        raise Unknowable("embeds")
    if body.truncate_prompt_tokens is not None:
        raise Unknowable("truncated")
    if body.suffix is not None:
        raise Unknowable("unsupported")
    return _prompts(body.prompt, add_special_tokens=body.add_special_tokens)


class _Completion(msgspec.Struct, gc=False):
    prompt: str | list[str | int | list[int]]
    prompt_embeds: Any = None
    add_special_tokens: bool = True
    suffix: str | None = None
    truncate_prompt_tokens: Any = None


_decoder = msgspec.json.Decoder(_Completion)


def _prompts(prompt: Any, *, add_special_tokens: bool) -> AskedIds | AskedTexts:
    if isinstance(prompt, str):
        return AskedTexts([prompt], add_special_tokens)
    kinds = set(map(type, prompt))
    if kinds == {str}:
        return AskedTexts(prompt, add_special_tokens)
    if kinds == {int}:
        return AskedIds([prompt])
    if kinds == {list}:
        return AskedIds(prompt)
    raise Unknowable("malformed")
