"""Table of the endpoints of workers, by path. All other paths belong to the gateway itself or are not served."""

from collections.abc import Mapping
from types import MappingProxyType

from gateway.protocol.body import parse_chat, parse_chats, parse_completion
from gateway.protocol.endpoints.audio import audio_upstream_body, parse_audio, usage_of_audio
from gateway.protocol.endpoints.endpoint import FORM, Endpoint, read_as_json
from gateway.protocol.endpoints.faults import ANTHROPIC, RESPONSES
from gateway.protocol.endpoints.messages import MessagesObserver, parse_messages, usage_of_message
from gateway.protocol.endpoints.pooling import parse_pooling, parse_scoring, usage_of_pooling
from gateway.protocol.endpoints.responses import ResponsesObserver, parse_responses, response_id_of, usage_of_response
from gateway.protocol.endpoints.tokens import parse_tokens

_POOLING = {
    "/v1/embeddings": "Compute embeddings of texts, token ids or a chat",
    "/v2/embed": "Compute embeddings, in the format of Cohere's API",
    "/v1/rerank": "Rank documents by their relevance to a query",
    "/rerank": "Rank documents by their relevance to a query",
    "/v2/rerank": "Rank documents by their relevance to a query, in the format of Cohere's API",
    "/v1/score": "Compute the similarity of pairs of texts",
    "/score": "Compute the similarity of pairs of texts",
    "/pooling": "Return the raw output of the model's pooler",
    "/classify": "Classify texts",
}
_SCORING = {
    "/generative_scoring": "Compute the probabilities of given tokens after a query and each of several items",
    "/v1/decisions": "Answer questions about a state, using the token probabilities of a model",
    "/v1/systemone": "Answer questions about a state, in the format of TypeSafe's API",
}
_TOKENS = {"/tokenize": "Return the tokens of a text or a chat", "/detokenize": "Return the text of tokens"}
_AUDIO = {"/v1/audio/transcriptions": "Transcribe speech", "/v1/audio/translations": "Translate speech to English"}

_ENDPOINTS = (
    Endpoint(
        "/v1/chat/completions",
        read_as_json(parse_chat),
        summary="Generate the next message of a chat",
        required=("messages",),
    ),
    Endpoint(
        "/v1/chat/completions/batch",
        read_as_json(parse_chats),
        summary="Generate the next message of each of several chats",
        required=("messages",),
    ),
    Endpoint("/v1/completions", read_as_json(parse_completion), summary="Continue a text"),
    Endpoint(
        "/v1/responses",
        read_as_json(parse_responses),
        observer=ResponsesObserver,
        usage_of=usage_of_response,
        response_id_of=response_id_of,
        errors=RESPONSES,
        summary="Generate a response to an input; a worker can store the response",
        required=(),
    ),
    Endpoint(
        "/v1/messages",
        read_as_json(parse_messages),
        observer=MessagesObserver,
        usage_of=usage_of_message,
        errors=ANTHROPIC,
        summary="Generate the next message of a conversation, in the format of Anthropic's API",
        required=("messages",),
    ),
    Endpoint(
        "/v1/messages/count_tokens",
        read_as_json(parse_tokens),
        errors=ANTHROPIC,
        summary="Count the tokens of a conversation, in the format of Anthropic's API",
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
