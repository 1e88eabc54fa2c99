"""Request bodies as routing needs them. In contrast, the worker receives the original bytes of the body.

Only fields that matter to the gateway are read, so all other fields that an engine understands pass through. A fault
that an engine would reject with status 400 is reported with its position or field before a worker is chosen.
"""

import hashlib
import re
from codecs import BOM_UTF8
from collections.abc import Callable
from typing import Any, Final, Never

import msgspec
from msgspec import UNSET

from cache_index.native import mypyc_attr
from cache_index.value import Value
from gateway.protocol.engine_fields import engine_fields_of
from gateway.protocol.errors import InvalidField, MalformedBody
from gateway.protocol.json_fields import (
    ChatFields,
    CommonFields,
    TextBody,
    decode_any_chat,
    decode_chat,
    decode_chats,
    decode_text,
)
from gateway.protocol.prompt import chat_prompt, embeds_prompt, joined, text_prompt, token_prompt
from gateway.protocol.session_field import has_session_field, session_field_of
from gateway.protocol.splice import Places

MAX_NAME_CHARACTERS: Final = 512
"""Maximum length in characters of the name of a model, session, user, cache salt or response."""
_LARGEST_COUNT = 2**31 - 1  # of tokens or choices; far beyond any engine, and safe in every store that adds them up


@mypyc_attr(acyclic=True)
class Body(Value):
    """Parsed body of a request, with the data for routing. Each endpoint has a parser for it; see
    `gateway.protocol.endpoints`.
    """

    __match_args__ = (
        "model",
        "streams",
        "max_tokens",
        "asks_usage",
        "has_stream_options",
        "prompt",
        "session",
        "cache_salt",
        "n",
        "reads_cache",
        "writes_cache",
        "previous_response_id",
        "user",
        "imposes_salt",
        "engine_fields",
        "omitted_bytes",
        "places",
        "background",
        "names_model",
        "hides_session_id",
    )
    __slots__ = __match_args__

    def __init__(  # noqa: PLR0917  # one for each field
        self,
        model: str,
        streams: bool,
        max_tokens: int | None,
        asks_usage: bool,
        has_stream_options: bool,
        prompt: bytes,
        session: str | None,
        cache_salt: str | None,
        n: int,
        reads_cache: bool,
        writes_cache: bool = True,
        previous_response_id: str | None = None,
        user: str | None = None,
        imposes_salt: bool = False,
        engine_fields: tuple[str, ...] = (),
        omitted_bytes: int = 0,
        places: Places | None = None,
        background: bool = False,
        names_model: bool = True,
        hides_session_id: bool = False,
    ) -> None:
        self.model: Final = model
        self.streams: Final = streams
        self.max_tokens: Final = max_tokens
        """Maximum tokens per choice that the caller set, or 0 if the endpoint generates no tokens."""
        self.asks_usage: Final = asks_usage
        """Whether the answer will include the token usage even if the gateway does not request it."""
        self.has_stream_options: Final = has_stream_options
        """Whether the body has the key ``stream_options``, possibly with the value null."""
        self.prompt: Final = prompt
        """Prompt text whose prefix determines the cache hit; see `gateway.protocol.prompt`."""
        self.session: Final = session
        """Session that the body names: ``session_id``, or else ``prompt_cache_key``, or else the end user."""
        self.cache_salt: Final = cache_salt
        """Cache salt of the request. Prompts share cached prefixes only with prompts of the same salt."""
        self.n: Final = n
        """Number of requested answers, which is the field ``n`` times the number of prompts."""
        self.reads_cache: Final = reads_cache
        """Whether vLLM can use cached blocks. It cannot with ``prompt_logprobs``, or with ``echo`` and ``logprobs``."""
        self.writes_cache: Final = writes_cache
        """Whether the prompt's blocks stay in the worker's cache. Most engines for pooling models keep none."""
        self.previous_response_id: Final = previous_response_id
        """Id of an earlier response whose worker has the conversation. *prompt* then contains only the new part."""
        self.user: Final = user
        """End user named by the caller: ``safety_identifier`` if given, and ``user`` otherwise."""
        self.imposes_salt: Final = imposes_salt
        """Whether the gateway has set `cache_salt`, so that the salt must be sent to the worker."""
        self.engine_fields: Final = engine_fields
        """Names of the engine fields in the body; see `gateway.protocol.engine_fields`."""
        self.omitted_bytes: Final = omitted_bytes
        """Number of bytes of a very long prompt that are missing in *prompt*."""
        self.places: Final = places
        """Positions of the fields in the raw body, if the parser has found them, as in large bodies."""
        self.names_model: Final = names_model
        """Whether the body names a model. If not, *model* is the only model that the gateway serves."""
        self.hides_session_id: Final = hides_session_id  # because workers must not see it
        self.background: Final = background
        """Whether the answer only confirms the start of the work, so that the caller fetches the result later."""

    @property
    def prompt_bytes(self) -> int:
        """Length of the whole prompt in bytes, including any parts that are missing in *prompt*."""
        return len(self.prompt) + self.omitted_bytes


def parse_chat(raw: bytes) -> Body:
    """Parse the body of ``/v1/chat/completions``. Takes O(bytes).

    Raises:
        MalformedBody: if *raw* is not one JSON object. The message contains the position.
        InvalidField: if a field is missing or invalid; *param* names it.
    """
    return parsed(raw, _chat)


def parse_chats(raw: bytes) -> Body:
    """Parse the body of ``/v1/chat/completions/batch``, in which *messages* is a list of chats. Raises the same errors
    as `parse_chat`.
    """
    return parsed(raw, _chats)


def parse_completion(raw: bytes) -> Body:
    """Parse the body of ``/v1/completions``. Takes O(bytes). Raises the same errors as `parse_chat`."""
    return parsed(raw, _text)


def parsed(raw: bytes, read: Callable[[bytes], Body]) -> Body:
    """Return the result of *read* for *raw*, with all JSON errors translated to the gateway's errors.

    Raises:
        MalformedBody, InvalidField: see `parse_chat`.
    """
    try:
        if not raw.isascii():
            raw.decode()  # msgspec does not check the strings that it skips
            if raw.startswith(BOM_UTF8):  # msgspec's message would name an invisible character
                raise MalformedBody("JSON is malformed: it starts with a byte order mark (byte 0)")
        return _bounded(read(raw))
    except UnicodeDecodeError as error:
        # Not chained: the cause carries the whole body.
        raise MalformedBody(f"JSON is malformed: invalid UTF-8 (byte {error.start})") from None
    except msgspec.ValidationError as error:
        _raise_invalid(str(error))
    except msgspec.DecodeError as error:
        if "truncated" in str(error):
            raise MalformedBody(f"JSON is malformed: unexpected end (byte {len(raw)})") from error
        raise MalformedBody(str(error)) from error
    except RecursionError as error:
        raise MalformedBody("The JSON body is nested too deeply") from error


def _bounded(body: Body) -> Body:
    """Check the lengths of the names in *body*. Names longer than `MAX_NAME_CHARACTERS` are shortened or refused.

    Names of sessions and users are only compared, so a long name is replaced by its digest.

    Raises:
        InvalidField: if the cache salt or the id of the previous response is too long.
    """
    _check_length("cache_salt", body.cache_salt)
    _check_length("previous_response_id", body.previous_response_id)
    session, user = body.session, body.user
    if (session is None or len(session) <= MAX_NAME_CHARACTERS) and (user is None or len(user) <= MAX_NAME_CHARACTERS):
        return body
    return body.changed(session=_short(session), user=_short(user))


def _check_length(param: str, value: str | None) -> None:
    if value is not None and len(value) > MAX_NAME_CHARACTERS:
        raise InvalidField(f"'{param}' is longer than {MAX_NAME_CHARACTERS} characters", param=param)


def _short(name: str | None) -> str | None:
    if name is None or len(name) <= MAX_NAME_CHARACTERS:
        return name
    return f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"


def without_prompt(
    model: str | None,
    *,
    streams: bool = False,
    max_tokens: int | None = 0,
    engine_fields: tuple[str, ...] = (),
    hides_session_id: bool = False,
) -> Body:
    """Return a body without a prompt, for requests that all workers can serve equally well.

    Raises:
        InvalidField: if the model name is too long.
    """
    return Body(
        model=named(model),
        streams=streams,
        max_tokens=max_tokens,
        asks_usage=True,
        has_stream_options=False,
        prompt=b"",
        session=None,
        cache_salt=None,
        n=1,
        reads_cache=False,
        writes_cache=False,
        engine_fields=engine_fields,
        hides_session_id=hides_session_id,
    )


def named(model: str | None) -> str:
    """Return the model name, or ``""`` if it is missing. If the gateway serves only one model, `gateway.proxy.bodies`
    then adds this model's name.

    Raises:
        InvalidField: if the name is too long.
    """
    if not model:
        return ""
    if len(model) > MAX_NAME_CHARACTERS:
        raise InvalidField(f"'model' is longer than {MAX_NAME_CHARACTERS} characters", param="model")
    return model


def count(value: float | None, param: str, *, minimum: int) -> int | None:
    """Return *value* as an int. As in engines, the number 16.0 is accepted as 16, because some languages have only
    floats.

    Raises:
        InvalidField: if *value* is not an integer of at least *minimum*; *param* names the field.
    """
    if value is None:
        return None
    if not minimum <= value <= _LARGEST_COUNT or value != int(value):
        raise InvalidField(f"'{param}' must be an integer between {minimum} and {_LARGEST_COUNT}", param=param)
    return int(value)


def _chat(raw: bytes) -> Body:
    sent: tuple[str, ...] = ()
    try:
        chat = decode_chat(raw)
    except msgspec.ValidationError:  # engine fields, or a fault that the other decoder finds too
        chat = decode_any_chat(raw)
        sent = engine_fields_of(chat)
    if not chat.messages:
        raise InvalidField("'messages' must be a list of at least one message", param="messages")
    return _completion(
        chat, prompt=chat_prompt(chat.messages, head=_head(chat)), zero_is_unlimited=True, engine_fields=sent
    )


def _chats(raw: bytes) -> Body:
    chats = decode_chats(raw)
    if not chats.messages:
        raise InvalidField("'messages' must be a list of at least one chat", param="messages")
    head = _head(chats)
    prompts = [chat_prompt(messages, head=head) for messages in chats.messages]
    sent = engine_fields_of(chats)
    return _completion(chats, prompt=joined(prompts), prompts=len(prompts), zero_is_unlimited=True, engine_fields=sent)


def _text(raw: bytes) -> Body:
    text = decode_text(raw)
    text.max_completion_tokens = None  # unknown to the engines here, so it must not hide `max_tokens`
    several = isinstance(text.prompt, list) and text.prompt and not isinstance(text.prompt[0], int)
    prompts = len(text.prompt or ()) if several else 1
    return _completion(text, prompt=_prompt(text), prompts=prompts, engine_fields=engine_fields_of(text))


def _completion(
    body: CommonFields,
    *,
    prompt: bytes,
    engine_fields: tuple[str, ...],
    prompts: int = 1,
    zero_is_unlimited: bool = False,
) -> Body:
    """Return the parsed body of a completion. If *zero_is_unlimited* is true, 0 tokens mean no limit, as in engines."""
    options = body.stream_options
    max_tokens = count(body.max_tokens, "max_tokens", minimum=0)
    max_completion_tokens = count(body.max_completion_tokens, "max_completion_tokens", minimum=0)
    longest = _larger(max_tokens, max_completion_tokens)
    n = count(body.n, "n", minimum=1)
    echoes_logprobs = bool(body.echo) and body.logprobs is not None and body.logprobs is not False
    return Body(
        model=named(body.model),
        streams=bool(body.stream),
        max_tokens=(longest or None) if zero_is_unlimited else longest,
        asks_usage=options is not None and options is not UNSET and options.include_usage is True,
        has_stream_options=options is not UNSET,
        prompt=prompt,
        session=session_field_of(body) or body.prompt_cache_key or body.user or None,
        cache_salt=body.cache_salt,
        n=prompts if n is None else n * prompts,
        reads_cache=body.prompt_logprobs is None and not echoes_logprobs,
        user=body.safety_identifier or body.user or None,
        engine_fields=engine_fields,
        hides_session_id=has_session_field(body),
    )


def _larger(max_tokens: int | None, max_completion_tokens: int | None) -> int | None:
    """Return the larger of two token limits, because vLLM uses the second and SGLang the first."""
    if max_tokens is None or max_completion_tokens is None:
        return max_tokens if max_completion_tokens is None else max_completion_tokens
    return max(max_tokens, max_completion_tokens)


def _head(chat: ChatFields) -> dict[str, Any]:
    """Return the fields that chat templates render before the first message. Tools come first, because they are long
    and often shared.
    """
    if not (chat.tools or chat.functions or chat.documents or chat.reasoning_effort or _has_template(chat)):
        return {}  # most requests
    head = {
        "tools": chat.tools,
        "functions": chat.functions,
        "documents": chat.documents,
        "chat_template": chat.chat_template,
        "chat_template_kwargs": chat.chat_template_kwargs,
        "reasoning_effort": chat.reasoning_effort,
    }
    return {name: value for name, value in head.items() if value}


def _has_template(chat: ChatFields) -> bool:
    return bool(chat.chat_template or chat.chat_template_kwargs)


def _prompt(text: TextBody) -> bytes:
    """Render the prompt, which can be a string, a list of strings, token ids, lists of token ids, or embeddings."""
    prompt = text.prompt
    if isinstance(prompt, str):
        return text_prompt([prompt])
    if not prompt:
        if text.prompt_embeds:
            return embeds_prompt(text.prompt_embeds)
        raise InvalidField("'prompt' must be a string or a non-empty list", param="prompt")
    kinds = set(map(type, prompt))
    try:
        if kinds == {str}:
            return text_prompt(prompt)  # type: ignore[arg-type]  # checked by the kinds
        if kinds == {int}:
            return token_prompt([prompt])  # type: ignore[list-item]
        if kinds == {list}:
            return token_prompt(prompt)  # type: ignore[arg-type]
    except ValueError as error:
        raise InvalidField(f"'prompt' is invalid: {error}", param="prompt") from error
    raise InvalidField("'prompt' must hold only strings, only token ids or only lists of token ids", param="prompt")


_FAULT = re.compile(r"(?P<fault>.*?)(?: - at `\$\.?(?P<path>.*)`)?")
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")
_WRONG_TYPE = re.compile(r"Expected `(?P<expected>.*)`, got `(?P<got>.*)`")
_TYPES = {
    "str": "a string",
    "bool": "true or false",
    "int": "an integer",
    "int | float": "a number",
    "float": "a number",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _raise_invalid(complaint: str) -> Never:
    """Translate msgspec's error text *complaint* (``Expected `str`, got `int` - at `$.messages[3].role```) to JSON
    terms, and raise it as an error.
    """
    found = _FAULT.fullmatch(complaint)
    fault, path = (found["fault"], found["path"]) if found else (complaint, "")
    if missing := _MISSING.fullmatch(fault):
        path = f"{path}.{missing['name']}" if path else missing["name"]
        raise InvalidField(f"'{path}' is missing", param=path)
    if wrong := _WRONG_TYPE.fullmatch(fault):
        fault = f"must be {_in_words(wrong['expected'])}, not {_in_words(wrong['got'])}"
    if not path:
        raise MalformedBody(f"The body {fault}")
    raise InvalidField(f"'{path}' {fault}", param=path)


def _in_words(types: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in types.replace("int | float", "float").split(" | "))
