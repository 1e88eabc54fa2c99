"""Request fields that control an engine internally. Callers can send them only if the model's settings allow it.

They choose the worker that computes a prompt, the source of its blocks, the id, the priority or the adapter, or they
replace the prompt by token ids. The names are those of vLLM (``entrypoints/openai/*/protocol.py`` of 0.33), SGLang
(``srt/entrypoints/openai/protocol.py`` of 0.5.23), Dynamo's frontend (1.6) and TensorRT-LLM.
"""

from collections.abc import Collection
from typing import Final, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from gateway.protocol.errors import InvalidField

_ABSENT = Raw(b"")


class EngineFields(msgspec.Struct, gc=False):
    """Base class for the types of decoded request bodies. If the caller sent a field, with any value, the field is not
    empty.
    """

    # Source and target of the blocks of the prompt or of a multimodal item.
    kv_transfer_params: Raw = _ABSENT
    ec_transfer_params: Raw = _ABSENT
    disaggregated_params: Raw = _ABSENT
    migration_request: Raw = _ABSENT
    bootstrap_host: Raw = _ABSENT
    bootstrap_port: Raw = _ABSENT
    bootstrap_room: Raw = _ABSENT
    bootstrap_pair_key: Raw = _ABSENT
    disagg_prefill_dp_rank: Raw = _ABSENT
    # The rank that answers, and its priority.
    data_parallel_rank: Raw = _ABSENT
    routed_dp_rank: Raw = _ABSENT
    dp_rank: Raw = _ABSENT
    nvext: Raw = _ABSENT
    priority: Raw = _ABSENT
    # Ids, and state that an engine keeps by id.
    request_id: Raw = _ABSENT
    rid: Raw = _ABSENT
    session_id: Raw = _ABSENT
    parent_session_id: Raw = _ABSENT
    session_params: Raw = _ABSENT
    conversation_params: Raw = _ABSENT
    extra_key: Raw = _ABSENT
    # An adapter without a model name.
    lora_path: Raw = _ABSENT
    lora_request: Raw = _ABSENT
    # A prompt instead of the one that is routed, counted and checked.
    input_ids: Raw = _ABSENT
    input_embeds: Raw = _ABSENT
    prompt_token_ids: Raw = _ABSENT
    # Code, labels and settings of one engine.
    vllm_xargs: Raw = _ABSENT
    custom_params: Raw = _ABSENT
    custom_logit_processor: Raw = _ABSENT
    logits_processors: Raw = _ABSENT
    custom_labels: Raw = _ABSENT
    ngram_corpus_id: Raw = _ABSENT
    # Additional results.
    return_hidden_states: Raw = _ABSENT
    return_routed_experts: Raw = _ABSENT
    # An argument of SDKs whose fields some servers merge into the body.
    extra_body: Raw = _ABSENT


ENGINE_FIELDS = EngineFields.__struct_fields__
"""Names of all request fields that control an engine internally."""

SESSION_FIELD: Final = "session_id"
"""Engine field that JSON bodies may always contain. The gateway uses its value, and hides the field from the worker."""

_COUNT = len(ENGINE_FIELDS)
_ALL_ABSENT = (_ABSENT,) * _COUNT

Body = TypeVar("Body", bound=EngineFields)

_decode_text = msgspec.json.Decoder(str | None).decode


def without_engine_fields(kind: type[Body]) -> type[Body]:
    """Return a variant of the type *kind* that cannot be decoded from a body with an engine field."""
    fields = [(field.name, field.type, field.default) for field in msgspec.structs.fields(kind)[_COUNT:]]
    fields += [(name, UnsetType, UNSET) for name in ENGINE_FIELDS]
    return cast("type[Body]", msgspec.defstruct(kind.__name__, fields, gc=False))


def engine_fields_of(body: EngineFields) -> tuple[str, ...]:
    """Return the names of the engine-internal fields in *body*, except `SESSION_FIELD`."""
    values = astuple(body)[:_COUNT]  # the fields of a base class come first
    if values == _ALL_ABSENT:  # a comparison of identities
        return ()
    sent = [name for name, value in zip(ENGINE_FIELDS, values, strict=True) if value is not _ABSENT]
    return tuple(name for name in sent if name != SESSION_FIELD)


def has_session_field(body: EngineFields) -> bool:
    """Return whether *body* contains `SESSION_FIELD`, with any value."""
    value: object = body.session_id
    return value is not _ABSENT and value is not UNSET


def session_field_of(body: EngineFields) -> str | None:
    """Return the value of `SESSION_FIELD` in *body*, or None if the field is missing, null or empty.

    Raises:
        InvalidField: if the value is not a string.
    """
    if not has_session_field(body):
        return None
    try:
        return _decode_text(body.session_id) or None
    except msgspec.DecodeError:
        raise InvalidField(f"'{SESSION_FIELD}' must be a string", param=SESSION_FIELD) from None


def engine_fields_among(names: Collection[str]) -> tuple[str, ...]:
    """Return the engine-internal fields among *names*, which are the field names of a form."""
    return tuple(name for name in ENGINE_FIELDS if name in names)


def check_engine_fields(sent: tuple[str, ...], allowed: frozenset[str]) -> None:
    """Raise an error unless all engine-internal fields in *sent* are in *allowed*.

    Raises:
        InvalidField: if a field is not allowed; *param* names it.
    """
    for name in sent:
        if name not in allowed:
            raise InvalidField(
                f"'{name}' is internal to inference engines and not allowed for this model. Remove it, "
                "or add it to models[].allowed_engine_fields",
                param=name,
            )
