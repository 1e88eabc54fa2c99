"""Usage as OpenAI's API tells it, as msgspec decodes it; all else of an answer is skipped.

By itself, because compiled it would lose the types by which it is decoded (see deploy/compile_core.py).
"""

import msgspec


class PromptTokensDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class UsageFields(msgspec.Struct, gc=False):
    prompt_tokens: int = 0
    completion_tokens: int | None = None
    prompt_tokens_details: PromptTokensDetails | None = None


class _Answer(msgspec.Struct, gc=False):
    usage: UsageFields | None = None


decode_answer = msgspec.json.Decoder(_Answer).decode
