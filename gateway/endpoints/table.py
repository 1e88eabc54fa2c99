"""The endpoints that workers answer, by path. Everything else is the gateway's own, or is not served."""

from collections.abc import Mapping
from types import MappingProxyType

from gateway.body import parse_chat, parse_chats, parse_completion
from gateway.endpoints.audio import audio_upstream_body, parse_audio, usage_of_audio
from gateway.endpoints.endpoint import FORM, Endpoint, read_as_json
from gateway.endpoints.faults import ANTHROPIC, RESPONSES
from gateway.endpoints.messages import MessagesTail, parse_messages, usage_of_message
from gateway.endpoints.pooling import parse_pooling, parse_scoring, usage_of_pooling
from gateway.endpoints.responses import ResponsesTail, parse_responses, response_id_of, usage_of_response
from gateway.endpoints.tokens import parse_tokens

_POOLING = {
    "/v1/embeddings": "Embeddings of texts, token ids or a chat",
    "/v2/embed": "Embeddings, as Cohere's API has them",
    "/v1/rerank": "Documents in the order of their relevance to a query",
    "/rerank": "The same",
    "/v2/rerank": "The same, as Cohere's API has it",
    "/v1/score": "How alike pairs of texts are",
    "/score": "The same",
    "/pooling": "What the model's pooler gives, as it is",
    "/classify": "Classes of texts",
}
_SCORING = {
    "/generative_scoring": "Probabilities of given tokens after a query and each of several items",
    "/v1/decisions": "Answers to questions about a state, read off a generating model",
    "/v1/systemone": "Answers to questions about a state, as TypeSafe's API has them",
}
_TOKENS = {"/tokenize": "Tokens of a text or a chat", "/detokenize": "The text of tokens"}
_AUDIO = {"/v1/audio/transcriptions": "Speech as text", "/v1/audio/translations": "Speech as English text"}

_ENDPOINTS = (
    Endpoint(
        "/v1/chat/completions",
        read_as_json(parse_chat),
        summary="The next message of a chat",
        required=("messages",),
    ),
    Endpoint(
        "/v1/chat/completions/batch",
        read_as_json(parse_chats),
        summary="The next message of each of several chats",
        required=("messages",),
    ),
    Endpoint("/v1/completions", read_as_json(parse_completion), summary="How a text goes on"),
    Endpoint(
        "/v1/responses",
        read_as_json(parse_responses),
        tail=ResponsesTail,
        usage_of=usage_of_response,
        response_id_of=response_id_of,
        errors=RESPONSES,
        summary="A response to an input, which its worker may keep",
        required=(),
    ),
    Endpoint(
        "/v1/messages",
        read_as_json(parse_messages),
        tail=MessagesTail,
        usage_of=usage_of_message,
        errors=ANTHROPIC,
        summary="The next message of a conversation, as Anthropic's API has it",
        required=("messages",),
    ),
    Endpoint(
        "/v1/messages/count_tokens",
        read_as_json(parse_tokens),
        errors=ANTHROPIC,
        summary="How many tokens a conversation has, as Anthropic's API has it",
    ),
    *[
        Endpoint(path, read_as_json(parse_pooling), usage_of=usage_of_pooling, summary=summary)
        for path, summary in _POOLING.items()
    ],
    *[
        Endpoint(path, read_as_json(parse_scoring), usage_of=usage_of_pooling, summary=summary)
        for path, summary in _SCORING.items()
    ],
    *[Endpoint(path, read_as_json(parse_tokens), summary=summary) for path, summary in _TOKENS.items()],
    *[
        Endpoint(
            path,
            parse_audio,
            media=FORM,
            required=("model",),
            upstream_body=audio_upstream_body,
            usage_of=usage_of_audio,
            summary=summary,
        )
        for path, summary in _AUDIO.items()
    ],
)

ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType({endpoint.path: endpoint for endpoint in _ENDPOINTS})
