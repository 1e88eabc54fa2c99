from simulator.bodies import BodyReader
from simulator.endpoints import ChatEndpoint, CompletionEndpoint
from simulator.generation import Incoming

READER = BodyReader("tiny", context_tokens=100)


def incoming(body: bytes) -> Incoming:
    return Incoming(body, "application/json", base_id="abc", created=7)


def test_each_endpoint_reads_its_body_and_names_its_answer() -> None:
    """The caller's id is part of the answer's."""
    chat, chat_shape = ChatEndpoint(READER).read(incoming(b'{"messages": [{"role": "user", "content": "Hello"}]}'))
    completion, shape = CompletionEndpoint(READER).read(incoming(b'{"prompt": "Hello"}'))

    assert (["chatcmpl-abc", "cmpl-abc"]) == [chat_shape.id, shape.id]
    assert ([88], [16]) == (chat.max_tokens, completion.max_tokens)
