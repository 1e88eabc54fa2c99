"""Comparison of the gateway's tokens with an engine's for sample prompts, before the gateway uses its own tokens.

The tokenizer, template, version and flags of an engine may differ from the settings, and each difference shows in some
prompts only. So each `Feature` has samples, the simplest first. A wrong tokenizer shows in ``text``, a wrong template
in ``chat``, and wrong flags or versions in the other features.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from gateway.models.tokenizing.exactness import Exact, NotExact
from gateway.models.tokenizing.features import Feature
from gateway.models.tokenizing.token_source import RawPrompt, TokenSource

Verdict = Literal["same", "different", "unknown"]
"""Result of the comparison of two tokenizations. It is ``unknown`` if one of them is missing."""

_CHAT = "/v1/chat/completions"
_TEXTS = (
    "Hello, world! It's 12345 o'clock.",
    " two  spaces\tand a tab\n\n  def f(x):\n    return x[1:-1]  # \u00e9 e\u0301 \ufb01\n",
    "\u4f60\u597d, \U0001f600! \u0416\u0443\u043a\u0438 1,000.50 \u20ac...",
)
_ASKING = {"role": "user", "content": _TEXTS[0]}
_TURNS = [
    {"role": "system", "content": "Be brief. "},
    _ASKING,
    {"role": "assistant", "content": _TEXTS[1]},
    {"role": "user", "content": _TEXTS[2]},
]
_TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Looks up <a> & 'b'.",
        "parameters": {"type": "object", "properties": {"n": {"type": "number", "default": 1.0}}, "required": ["n"]},
    },
}
_CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"n": 2.50, "a": "\u00e9"}'}}
_CALLING = [
    _ASKING,
    {"role": "assistant", "content": None, "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": '{"found": true}'},
]
_REASONED = [_ASKING, {"role": "assistant", "content": "Yes.", "reasoning": "Is it?\n"}, _ASKING]
_PARTS = [{"role": "user", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]}]

_SAMPLES: Mapping[Feature, Sequence[tuple[str, Mapping[str, Any]]]] = MappingProxyType(
    {
        "text": [("/v1/completions", {"prompt": text}) for text in _TEXTS],
        "chat": [(_CHAT, {"messages": [_ASKING]}), (_CHAT, {"messages": _TURNS})],
        "parts": [(_CHAT, {"messages": _PARTS})],
        "developer": [(_CHAT, {"messages": [{"role": "developer", "content": "Be brief."}, _ASKING]})],
        "tools": [(_CHAT, {"messages": _TURNS, "tools": [_TOOL]})],
        "tool_calls": [(_CHAT, {"messages": _CALLING, "tools": [_TOOL]})],
        "reasoning": [(_CHAT, {"messages": _REASONED})],
        "effort": [(_CHAT, {"messages": [_ASKING], "reasoning_effort": effort}) for effort in ("low", "none")],
    }
)


async def agreement(ours: TokenSource, theirs: TokenSource, *, model: str) -> Mapping[Feature, Verdict]:
    """Compare the tokens of *ours* and *theirs* for every feature. *model* is the engine's name for the model. This
    takes a dozen requests in sequence.

    Samples for which *ours* is too slow at first are repeated.
    """
    return {
        feature: _all([await _compared(ours, theirs, _prompt(path, body, model)) for path, body in samples])
        for feature, samples in _SAMPLES.items()
    }


def distrusted(verdicts: Mapping[Feature, Verdict]) -> frozenset[Feature]:
    """Return the features for which gateway and engine disagree, so that the gateway's tokens must not be used."""
    return frozenset(feature for feature, verdict in verdicts.items() if verdict == "different")


async def _compared(ours: TokenSource, theirs: TokenSource, prompt: RawPrompt) -> Verdict:
    our_tokens = await _patiently(ours, prompt)
    if isinstance(our_tokens, NotExact):
        return "unknown"
    their_tokens = await theirs.ids(prompt)
    if isinstance(their_tokens, NotExact):
        return "unknown"
    return "same" if our_tokens == their_tokens else "different"


async def _patiently(token_source: TokenSource, prompt: RawPrompt) -> Exact | NotExact:
    for _ in range(20):
        outcome = await token_source.ids(prompt)
        if isinstance(outcome, Exact) or outcome.reason not in ("slow", "busy"):
            return outcome
        await asyncio.sleep(0.05)
    return outcome


def _all(verdicts: Sequence[Verdict]) -> Verdict:
    if "different" in verdicts:
        return "different"
    return "unknown" if "unknown" in verdicts else "same"


def _prompt(path: str, body: Mapping[str, Any], model: str) -> RawPrompt:
    return RawPrompt(path, msgspec.json.encode({"model": model, "max_tokens": 1, **body}), model)
