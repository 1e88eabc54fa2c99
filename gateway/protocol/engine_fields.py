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

ABSENT = Raw(b"")
"""Value of a field that a body does not contain. It is compared by identity."""


class EngineFields(msgspec.Struct, gc=False):
    """Base class for the types of decoded request bodies. If the caller sent a field, with any value, the field is not
    empty.
    """

    # Source and target of the blocks of the prompt or of a multimodal item.
    kv_transfer_params: Raw = ABSENT
    ec_transfer_params: Raw = ABSENT
    disaggregated_params: Raw = ABSENT
    migration_request: Raw = ABSENT
    bootstrap_host: Raw = ABSENT
    bootstrap_port: Raw = ABSENT
    bootstrap_room: Raw = ABSENT
    bootstrap_pair_key: Raw = ABSENT
    disagg_prefill_dp_rank: Raw = ABSENT
    # The rank that answers, and its priority.
    data_parallel_rank: Raw = ABSENT
    routed_dp_rank: Raw = ABSENT
    dp_rank: Raw = ABSENT
    nvext: Raw = ABSENT
    priority: Raw = ABSENT
    # Ids, and state that an engine keeps by id.
    request_id: Raw = ABSENT
    rid: Raw = ABSENT
    session_id: Raw = ABSENT
    parent_session_id: Raw = ABSENT
    session_params: Raw = ABSENT
    conversation_params: Raw = ABSENT
    extra_key: Raw = ABSENT
    # An adapter without a model name.
    lora_path: Raw = ABSENT
    lora_request: Raw = ABSENT
    # A prompt instead of the one that is routed, counted and checked.
    input_ids: Raw = ABSENT
    input_embeds: Raw = ABSENT
    prompt_token_ids: Raw = ABSENT
    # Code, labels and settings of one engine.
    vllm_xargs: Raw = ABSENT
    custom_params: Raw = ABSENT
    custom_logit_processor: Raw = ABSENT
    logits_processors: Raw = ABSENT
    custom_labels: Raw = ABSENT
    ngram_corpus_id: Raw = ABSENT
    # Additional results.
    return_hidden_states: Raw = ABSENT
    return_routed_experts: Raw = ABSENT
    # An argument of SDKs whose fields some servers merge into the body.
    extra_body: Raw = ABSENT


ENGINE_FIELDS = EngineFields.__struct_fields__
"""Names of all request fields that control an engine internally."""

SESSION_FIELD: Final = "session_id"
"""Engine field that JSON bodies may always contain. The gateway uses its value, and hides the field from the worker
(see `gateway.protocol.session_field`).
"""

_COUNT = len(ENGINE_FIELDS)
_ALL_ABSENT = (ABSENT,) * _COUNT

Body = TypeVar("Body", bound=EngineFields)


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
    sent = [name for name, value in zip(ENGINE_FIELDS, values, strict=True) if value is not ABSENT]
    return tuple(name for name in sent if name != SESSION_FIELD)


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
