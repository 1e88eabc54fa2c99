"""Parser for request bodies. It turns JSON into a `GenerationRequest` or raises the same 400 or 404 error as vLLM."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar

import msgspec

from simulator.errors import ApiError
from simulator.guided_fields import functions_of, guide_for_format, guide_for_tools
from simulator.guides import CallGuide, Guide
from simulator.logprobs import MOST_ALTERNATIVES
from simulator.rendering import render_chat
from simulator.stops import Stops
from simulator.tokens import TokenSequence
from simulator.vocabulary import SIZE

_COMPLETION_DEFAULT_TOKENS = 16  # vLLM's

_TokenId = Annotated[int, msgspec.Meta(ge=0, lt=SIZE)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Alternatives = Annotated[int, msgspec.Meta(ge=0, le=MOST_ALTERNATIVES)]
_T = TypeVar("_T")


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _GenerationBody(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=128)] | None = None
    min_tokens: _Natural | None = None
    ignore_eos: bool | None = None
    return_token_ids: bool | None = None
    cache_salt: str | None = None
    stop: str | list[str] | None = None
    include_stop_str_in_output: bool | None = None
    response_format: Any = None
    structured_outputs: Any = None
    guided_json: Any = None
    guided_choice: Any = None


class ChatPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """Request fields that determine the prompt of a chat. /tokenize accepts the same fields."""

    messages: list[dict[str, Any]]
    tools: list[Any] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False


class _ChatBody(_GenerationBody, frozen=True, kw_only=True):
    max_tokens: _Positive | None = None
    max_completion_tokens: _Positive | None = None
    tool_choice: Any = None
    logprobs: bool | None = None
    top_logprobs: _Alternatives | None = None


class _CompletionBody(_GenerationBody, frozen=True, kw_only=True):
    prompt: Any
    max_tokens: _Positive | None = _COMPLETION_DEFAULT_TOKENS
    """Maximum number of answer tokens. With null, the answer can fill the rest of the context."""
    logprobs: _Alternatives | None = None


class _TextPrompt(msgspec.Struct, frozen=True, kw_only=True):
    prompt: str


class _TokenizeBody(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None = None
    return_token_strs: bool | None = None


class _Detokenize(msgspec.Struct, frozen=True, kw_only=True):
    tokens: list[_TokenId]
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """Parsed and validated request for a completion endpoint."""

    prompts: Sequence[TokenSequence]
    max_tokens: Sequence[int]
    """Maximum number of answer tokens for each prompt."""
    choices_per_prompt: int = 1
    min_tokens: int = 0
    ignore_eos: bool = False
    adapter: str | None = None
    """Name of the LoRA adapter if the request gives an adapter as its model."""
    cache_salt: str | None = None
    streams: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    return_token_ids: bool = False
    guide: Guide | None = None
    """Guide that determines the answers (for example a JSON schema), or None if the model determines them."""
    stops: Stops = field(default_factory=Stops)
    logprobs: int | None = None
    """Number of alternatives per token for log probabilities, or None to return no log probabilities."""


@dataclass(frozen=True, slots=True)
class BodyReader:
    """Parser for requests to a model with a context of *context_tokens*. Every method can raise `ApiError`."""

    model: str
    context_tokens: int
    adapters: Sequence[str] = ()
    """Names of the LoRA adapters served with the model."""

    def chat(self, body: bytes) -> GenerationRequest:
        fields = decode_body(body, _ChatBody)
        self.adapter(fields.model)
        asked = fields.max_completion_tokens or fields.max_tokens
        chat = decode_body(body, ChatPrompt)
        prompt = self.chat_tokens(chat)
        if fields.top_logprobs and not fields.logprobs:
            message = "when using `top_logprobs`, `logprobs` must be set to true."
            raise ApiError(400, message, param="top_logprobs")
        request = self._generation(fields, [prompt], asked, source="messages")
        logprobs = (fields.top_logprobs or 0) if fields.logprobs else None
        guide = _chat_guide(fields, chat)
        if request.guide is not None and not isinstance(guide, CallGuide):
            guide = request.guide  # what a tool returned is reported in the format that is asked for
        return replace(request, guide=guide, logprobs=logprobs)

    def completion(self, body: bytes) -> GenerationRequest:
        fields = decode_body(body, _CompletionBody)
        self.adapter(fields.model)
        prompts = prompts_of(fields.prompt, source="prompt")
        request = self._generation(fields, prompts, fields.max_tokens, source="prompt")
        return replace(request, logprobs=fields.logprobs)

    def tokenize(self, body: bytes) -> tuple[TokenSequence, bool]:
        """Return the tokens of a /tokenize request, and whether the request asks for their texts, too."""
        fields = decode_body(body, _TokenizeBody)
        self.adapter(fields.model)
        is_chat = "messages" in decode_body(body, dict[str, Any])
        if is_chat:
            tokens = self.chat_tokens(decode_body(body, ChatPrompt))
        else:
            tokens = TokenSequence.from_text(decode_body(body, _TextPrompt).prompt)
        return tokens, bool(fields.return_token_strs)

    def detokenize(self, body: bytes) -> TokenSequence:
        fields = decode_body(body, _Detokenize)
        self.adapter(fields.model)
        return TokenSequence.from_ids(fields.tokens)

    def check_model(self, model: str | None) -> None:
        """Raise `ApiError` unless *model* is the base model. This check is for endpoints without LoRA adapters."""
        if model not in (None, self.model):
            raise ApiError(404, f"The model `{model}` does not exist.", param="model")

    def adapter(self, model: str | None) -> str | None:
        """Return the LoRA adapter that the request gives as its model, or None for the base model itself."""
        if model in self.adapters:
            return model
        self.check_model(model)
        return None

    def chat_tokens(self, prompt: ChatPrompt) -> TokenSequence:
        """Return the prompt tokens of a chat, as produced by the chat template."""
        if not prompt.messages:
            raise ApiError(400, "messages: must not be empty", param="messages")
        for number, message in enumerate(prompt.messages):
            _check_message(message, f"messages[{number}]")
        if prompt.continue_final_message and prompt.add_generation_prompt:
            both = "`continue_final_message` and `add_generation_prompt`"
            raise ApiError(400, f"Cannot set both {both} to True.", param="add_generation_prompt")
        text = render_chat(
            prompt.messages,
            tools=prompt.tools or (),
            add_generation_prompt=prompt.add_generation_prompt,
            continue_final_message=prompt.continue_final_message,
        )
        return TokenSequence.from_text(text)

    def _generation(
        self, fields: _GenerationBody, prompts: list[TokenSequence], asked: int | None, *, source: str
    ) -> GenerationRequest:
        options = fields.stream_options or StreamOptions()
        return GenerationRequest(
            prompts=prompts,
            choices_per_prompt=fields.n or 1,
            max_tokens=[self.max_tokens(len(prompt), asked, source=source) for prompt in prompts],
            min_tokens=fields.min_tokens or 0,
            ignore_eos=bool(fields.ignore_eos),
            adapter=self.adapter(fields.model),
            cache_salt=fields.cache_salt,
            streams=bool(fields.stream),
            include_usage=bool(options.include_usage),
            continuous_usage=bool(options.continuous_usage_stats),
            return_token_ids=bool(fields.return_token_ids),
            guide=guide_for_format(
                fields.response_format, fields.structured_outputs, fields.guided_json, fields.guided_choice
            ),
            stops=_stops(fields),
        )

    def max_tokens(self, prompt_tokens: int, asked: int | None, *, source: str) -> int:
        """Return the maximum answer length: *asked* or else the remaining context. *source* names the prompt field."""
        if not prompt_tokens:
            raise ApiError(400, f"{source}: must not be empty", param=source)
        room = self.context_tokens - prompt_tokens
        limit = f"This model's maximum context length is {self.context_tokens} tokens"  # vLLM's words, as are the rest
        if room < 1:
            has = f"However, your request has {prompt_tokens} input tokens"
            raise ApiError(400, f"{limit}. {has}. Please reduce the length of the input {source}.", param=source)
        if asked is not None and asked > room:
            has = f"your request has {prompt_tokens} input tokens"
            raise ApiError(400, f"'max_tokens' is too large: {asked}. {limit} and {has}.", param="max_tokens")
        return asked if asked is not None else room


def _stops(fields: _GenerationBody) -> Stops:
    given = [fields.stop] if isinstance(fields.stop, str) else fields.stop or ()
    if "" in given:
        raise ApiError(400, "stop cannot contain an empty string.", param="stop")
    return Stops(given, is_included=bool(fields.include_stop_str_in_output))


def _chat_guide(fields: _ChatBody, chat: ChatPrompt) -> Guide | None:
    """Return the guide for a chat with tools, or None if the model determines the answer."""
    functions = functions_of(chat.tools)
    counts = fields.ignore_eos or fields.min_tokens or not chat.add_generation_prompt
    if counts and fields.tool_choice in (None, "auto"):
        return None
    return guide_for_tools(functions, fields.tool_choice, chat.messages)


def _check_message(message: dict[str, Any], place: str) -> None:
    if not isinstance(message.get("role"), str):
        raise ApiError(400, f"{place}.role: must be a string", param="messages")
    if not isinstance(message.get("content"), str | list | None):
        raise ApiError(400, f"{place}.content: must be a string, a list or null", param="messages")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or not all(_calls_function(call) for call in calls):
        raise ApiError(400, f"{place}.tool_calls: must be a list of function calls", param="messages")


def _calls_function(call: Any) -> bool:
    return isinstance(call, dict) and isinstance(call.get("function"), dict)


def decode_body(body: bytes, kind: type[_T]) -> _T:
    """Decode a JSON body. Raises `ApiError` 400 with the location of the error."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise ApiError(400, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, f"the body is not JSON: {error}") from None


def prompts_of(prompt: Any, *, source: str) -> list[TokenSequence]:
    """Return the prompts of a field that holds a string, a list of strings, token ids, or a list of token id lists.

    Raises:
        ApiError: 400 with the field name *source*, if the prompts are invalid.
    """
    if isinstance(prompt, str):
        return [TokenSequence.from_text(prompt)]
    if not isinstance(prompt, list) or not prompt:
        message = f"{source}: must be a non-empty string, non-empty token ids, or a non-empty list of either"
        raise ApiError(400, message, param=source)
    if isinstance(prompt[0], str):
        return [TokenSequence.from_text(text) for text in _convert_prompt(prompt, list[str], source)]
    if isinstance(prompt[0], list):
        return [TokenSequence.from_ids(ids) for ids in _convert_prompt(prompt, list[list[_TokenId]], source)]
    return [TokenSequence.from_ids(_convert_prompt(prompt, list[_TokenId], source))]


def _convert_prompt(prompt: Any, kind: type[_T], source: str) -> _T:
    try:
        return msgspec.convert(prompt, kind)
    except msgspec.ValidationError as error:
        raise ApiError(400, f"{source}: {error}", param=source) from None
