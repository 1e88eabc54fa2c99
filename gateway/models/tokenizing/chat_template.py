"""Rendering of a model's chat template in the same way as its engine.

The variables of templates follow vLLM 0.32 (`vllm/renderers/hf.py`, safe_apply_chat_template). Leaving the last message
open follows transformers 5.19 (`transformers/utils/chat_template_utils.py`, render_jinja_template).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jinja2
from jinja2 import meta

from gateway.models.tokenizing.asked import AskedChat, JsonObject
from gateway.models.tokenizing.content_format import content_format_of
from gateway.models.tokenizing.conversation import TemplateForm, TemplateMessages, conversation_of
from gateway.models.tokenizing.engine_flags import EngineFlags
from gateway.models.tokenizing.exactness import Unknowable
from gateway.models.tokenizing.sandbox import Clock, Sandbox

_MEDIA_MARK = "\uf8ff\ue000"  # private use: no template and hardly a prompt has it where media stands
_CONTINUED = "CONTINUED-FROM-HERE "
_ARGUMENTS = frozenset({"tools", "documents", "add_generation_prompt", "continue_final_message"})
_NEVER_KWARGS = frozenset(
    {
        *("self", "conversation", "messages", "tools", "tokenize", "tokenizer_kwargs", "padding", "truncation"),
        *("max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask"),
    }
)
"""Template arguments that a request is not allowed to set, because engines set or refuse them."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Prompt as the text that a chat template produces."""

    text: str
    exact_characters: int
    """Number of leading characters that equal the engine's text: all characters, or those before the first image."""
    add_special_tokens: bool = False


class ChatTemplate:
    """Chat templates of one model: usually one, or ``default`` and ``tool_use``, chosen as in transformers.

    *special_tokens* are template variables such as ``bos_token``. *now* returns the engine's local time. Raises
    `jinja2.TemplateError` if a template does not compile.
    """

    def __init__(
        self, sources: Mapping[str, str], *, special_tokens: Mapping[str, str], flags: EngineFlags, now: Clock
    ) -> None:
        self._flags = flags
        self._special_tokens = special_tokens
        environment = Sandbox(now)
        self._compiled = {name: _Compiled.of(source, environment, flags) for name, source in sources.items()}

    def render(self, chat: AskedChat) -> Rendered:
        """Return the rendered prompt of *chat*. O(size), about 10 us per message, and twice that with media.

        Raises:
            Unknowable: if the template refuses *chat*, or *chat* has content that the gateway does not support.
        """
        compiled, variables = self._prepared(chat)
        conversation = conversation_of(chat.messages, compiled.form)
        text = self._rendered(compiled, chat, conversation, variables)
        if not conversation.has_media:
            return Rendered(text, len(text), chat.add_special_tokens)
        # Up to where a text in its place shows, the media cannot.
        marked = conversation_of(chat.messages, compiled.form, media_mark=_MEDIA_MARK)
        other = self._rendered(compiled, chat, marked, variables)
        return Rendered(text, _shared(text, other), chat.add_special_tokens)

    def _prepared(self, chat: AskedChat) -> "tuple[_Compiled, JsonObject]":
        """Return the template for *chat* and the template's arguments without the messages."""
        tools = None if chat.tool_choice_none and self._flags.excludes_tools_when_none else chat.tools
        compiled = self._chosen(has_tools=tools is not None)
        if chat.continue_final_message and chat.add_generation_prompt:
            raise Unknowable("malformed")  # engines refuse it
        wanted = _wanted(chat)
        merged = _merged(_merged(dict(self._flags.default_template_kwargs), {"tools": tools}), wanted)
        arguments = {name: merged.get(name) for name in ("tools", "documents")}
        arguments["add_generation_prompt"] = merged.get("add_generation_prompt", False)
        declared = compiled.variables - _ARGUMENTS
        variables = {name: value for name, value in merged.items() if name in declared}
        return compiled, {**self._special_tokens, **variables, **arguments}

    def _chosen(self, *, has_tools: bool) -> "_Compiled":
        compiled = self._compiled.get("tool_use") if has_tools else None
        compiled = compiled or self._compiled.get("default")
        if compiled is None:
            raise Unknowable("template")
        return compiled

    def _rendered(
        self, compiled: "_Compiled", chat: AskedChat, conversation: TemplateMessages, variables: JsonObject
    ) -> str:
        if not chat.continue_final_message:
            return compiled.render(conversation.messages, variables)
        if "content" not in compiled.source:
            raise Unknowable("template")
        final, messages = _left_open(conversation.messages)
        return _up_to_mark(compiled.render(messages, variables), final)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """Compiled chat template of a model."""

    source: str
    template: jinja2.Template
    variables: frozenset[str]
    """Names of the variables that the template reads."""
    form: TemplateForm

    @classmethod
    def of(cls, source: str, environment: jinja2.Environment, flags: EngineFlags) -> "_Compiled":
        parsed = environment.parse(source)
        return cls(
            source=source,
            template=environment.from_string(source),
            variables=frozenset(meta.find_undeclared_variables(parsed)),
            form=TemplateForm(
                content=flags.content_format or content_format_of(parsed),
                knows_developer='"developer"' in source or "'developer'" in source,
            ),
        )

    def render(self, messages: Sequence[JsonObject], variables: JsonObject) -> str:
        try:
            return self.template.render({**variables, "messages": messages})
        except Exception:  # noqa: BLE001  # a template is a program: whatever stops it, the engine refuses the request
            raise Unknowable("template") from None  # the cause would carry pieces of the prompt


def _wanted(chat: AskedChat) -> JsonObject:
    """Return the template variables of the request. The request's own fields override ``chat_template_kwargs``."""
    kwargs = chat.template_kwargs or {}
    if kwargs.get("chat_template") is not None:
        raise Unknowable("own_template")
    if not _NEVER_KWARGS.isdisjoint(kwargs):
        raise Unknowable("unsupported")
    fields: JsonObject = {
        "add_generation_prompt": chat.add_generation_prompt,
        "continue_final_message": chat.continue_final_message,
        "documents": chat.documents,
        "reasoning_effort": chat.reasoning_effort,
    }
    if chat.reasoning_effort is not None and "enable_thinking" not in kwargs:
        fields["enable_thinking"] = chat.reasoning_effort != "none"
    return _merged(kwargs, fields)


def _merged(defaults: JsonObject, overrides: JsonObject) -> JsonObject:
    """Return *defaults* overridden by *overrides*. As in vLLM, None and "auto" do not override
    (`vllm/renderers/params.py`, merge_kwargs).
    """
    return {**defaults, **{name: value for name, value in overrides.items() if value not in (None, "auto")}}


def _left_open(messages: Sequence[JsonObject]) -> tuple[str, list[JsonObject]]:
    """Return the text of the last message, which the model continues, and *messages* with a marker after it."""
    *before, last = messages
    content = last["content"]
    if isinstance(content, str):
        return content, [*before, {**last, "content": content + _CONTINUED}]
    for at in range(len(content) - 1, -1, -1):
        if "text" in content[at]:
            text: str = content[at]["text"]
            marked = [*content[:at], {**content[at], "text": text + _CONTINUED}, *content[at + 1 :]]
            return text, [*before, {**last, "content": marked}]
    raise Unknowable("malformed")


def _up_to_mark(text: str, final: str) -> str:
    """Return *text* up to its marker. If the template stripped white space after the marker, also strip it before the
    marker.
    """
    mark = _CONTINUED.strip()
    at = text.rfind(mark)
    if at < 0 or final.strip() not in text:
        raise Unknowable("template")
    return text[:at] if text.startswith(_CONTINUED, at) else text[:at].rstrip()


def _shared(text: str, other: str) -> int:
    """Return the number of leading characters that are equal in *text* and *other*. O(log) comparisons."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if text[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
