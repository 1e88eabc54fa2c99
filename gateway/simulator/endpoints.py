"""The endpoints that are OpenAI's own: chats and completions."""

from dataclasses import dataclass

from gateway.simulator.bodies import BodyReader, GenerationRequest
from gateway.simulator.generation import Incoming
from gateway.simulator.replies import ChatShape, CompletionShape, ReplyShape


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    reader: BodyReader

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        shape = ChatShape(f"chatcmpl-{incoming.base_id}", incoming.created, self.reader.model)
        return self.reader.chat(incoming.json_body()), shape


@dataclass(frozen=True, slots=True)
class CompletionEndpoint:
    reader: BodyReader

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        shape = CompletionShape(f"cmpl-{incoming.base_id}", incoming.created, self.reader.model)
        return self.reader.completion(incoming.json_body()), shape
