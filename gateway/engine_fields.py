"""The fields of request bodies that steer an engine from inside. Callers send them only where their model allows it.

They choose who computes a prompt, from whom its blocks are fetched, under which id and how early it is served, which
adapter answers, or replace the prompt by token ids. The names are those that vLLM (``entrypoints/openai/*/protocol.py``
of 0.33), SGLang (``srt/entrypoints/openai/protocol.py`` of 0.5.23), Dynamo's frontend (1.6) and TensorRT-LLM read.
"""

from collections.abc import Collection
from typing import TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from gateway.errors import InvalidField

_ABSENT = Raw(b"")


class EngineFields(msgspec.Struct, gc=False):
    """The base of everything that a body is decoded into. A field that was sent, with whatever value, is not empty."""

    # Where the prompt's blocks, or a multimodal item's, come from and go to.
    kv_transfer_params: Raw = _ABSENT
    ec_transfer_params: Raw = _ABSENT
    disaggregated_params: Raw = _ABSENT
    migration_request: Raw = _ABSENT
    bootstrap_host: Raw = _ABSENT
    bootstrap_port: Raw = _ABSENT
    bootstrap_room: Raw = _ABSENT
    bootstrap_pair_key: Raw = _ABSENT
    disagg_prefill_dp_rank: Raw = _ABSENT
    # Who answers, and how early.
    data_parallel_rank: Raw = _ABSENT
    routed_dp_rank: Raw = _ABSENT
    dp_rank: Raw = _ABSENT
    nvext: Raw = _ABSENT
    priority: Raw = _ABSENT
    # Ids, and state that an engine keeps under one.
    request_id: Raw = _ABSENT
    rid: Raw = _ABSENT
    session_id: Raw = _ABSENT
    parent_session_id: Raw = _ABSENT
    session_params: Raw = _ABSENT
    conversation_params: Raw = _ABSENT
    extra_key: Raw = _ABSENT
    # An adapter that no model name stands for.
    lora_path: Raw = _ABSENT
    lora_request: Raw = _ABSENT
    # A prompt in place of the one that is routed, counted and looked at.
    input_ids: Raw = _ABSENT
    input_embeds: Raw = _ABSENT
    prompt_token_ids: Raw = _ABSENT
    # Code, labels and settings of an engine's own.
    vllm_xargs: Raw = _ABSENT
    custom_params: Raw = _ABSENT
    custom_logit_processor: Raw = _ABSENT
    logits_processors: Raw = _ABSENT
    custom_labels: Raw = _ABSENT
    ngram_corpus_id: Raw = _ABSENT
    # What an engine computes beside the answer.
    return_hidden_states: Raw = _ABSENT
    return_routed_experts: Raw = _ABSENT
    # An argument of SDKs, whose fields some servers take for the body's.
    extra_body: Raw = _ABSENT


ENGINE_FIELDS = EngineFields.__struct_fields__
"""The names of these fields."""

_COUNT = len(ENGINE_FIELDS)
_ALL_ABSENT = (_ABSENT,) * _COUNT

Body = TypeVar("Body", bound=EngineFields)


def without_engine_fields(kind: type[Body]) -> type[Body]:
    """Return *kind*, into which no body can be decoded that has an engine field with whatever value."""
    fields = [(field.name, field.type, field.default) for field in msgspec.structs.fields(kind)[_COUNT:]]
    fields += [(name, UnsetType, UNSET) for name in ENGINE_FIELDS]
    return cast("type[Body]", msgspec.defstruct(kind.__name__, fields, gc=False))


def engine_fields_of(body: EngineFields) -> tuple[str, ...]:
    """Return the names of the engine fields that *body* was sent with."""
    values = astuple(body)[:_COUNT]  # the fields of a base class come first
    if values == _ALL_ABSENT:  # a comparison of identities
        return ()
    return tuple(name for name, value in zip(ENGINE_FIELDS, values, strict=True) if value is not _ABSENT)


def engine_fields_among(names: Collection[str]) -> tuple[str, ...]:
    """Those of *names*, which are of the fields of a form, that are engine fields."""
    return tuple(name for name in ENGINE_FIELDS if name in names)


def check_engine_fields(sent: tuple[str, ...], allowed: frozenset[str]) -> None:
    """Let *sent*, engine fields of one request, pass if all of them are *allowed*.

    Raises:
        InvalidField: one is not; *param* names it.
    """
    for name in sent:
        if name not in allowed:
            raise InvalidField(
                f"'{name}' is internal to inference engines and not allowed for this model: leave it out, "
                "or have it listed in models[].allowed_engine_fields",
                param=name,
            )
