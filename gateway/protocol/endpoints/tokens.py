"""Tokenizer endpoints of engines. Their requests need no GPU, so all workers serve them equally well."""

import msgspec

from gateway.protocol.body import Body, parsed, without_prompt
from gateway.protocol.engine_fields import EngineFields, engine_fields_of
from gateway.protocol.session_field import has_session_field


def parse_tokens(raw: bytes) -> Body:
    """Parse the body of ``/tokenize``, ``/detokenize`` or Anthropic's ``count_tokens``. Takes O(bytes).

    Raises:
        MalformedBody, InvalidField: see `gateway.protocol.body.parse_chat`.
    """
    return parsed(raw, _read)


class _Tokens(EngineFields, gc=False):
    model: str | None = None


_decode = msgspec.json.Decoder(_Tokens).decode


def _read(raw: bytes) -> Body:
    body = _decode(raw)
    hides = has_session_field(body)
    return without_prompt(body.model, engine_fields=engine_fields_of(body), hides_session_id=hides)
