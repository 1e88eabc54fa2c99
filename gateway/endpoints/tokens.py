"""The engines' tokenizers as a service: nothing is computed on a GPU, so any worker can serve it."""

import msgspec

from gateway.body import Body, parsed, without_prompt
from gateway.engine_fields import EngineFields, engine_fields_of


def parse_tokens(raw: bytes) -> Body:
    """Read the body of ``/tokenize``, ``/detokenize`` or Anthropic's ``count_tokens``. O(bytes).

    Raises:
        MalformedBody, InvalidField: as `gateway.body.parse_chat`.
    """
    return parsed(raw, _read)


class _Tokens(EngineFields, gc=False):
    model: str | None = None


_decode = msgspec.json.Decoder(_Tokens).decode


def _read(raw: bytes) -> Body:
    body = _decode(raw)
    return without_prompt(body.model, engine_fields=engine_fields_of(body))
