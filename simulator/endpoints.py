"""OpenAI's endpoints for chat completions and completions."""

from dataclasses import dataclass

from simulator.bodies import BodyReader, GenerationRequest
from simulator.generation import Incoming
from simulator.replies import ChatShape, CompletionShape, ReplyShape


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    reader: BodyReader

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        request = self.reader.chat(incoming.json_body())
        model = request.adapter or self.reader.model
        return request, ChatShape(f"chatcmpl-{incoming.base_id}", incoming.created, model, request.logprobs or 0)


@dataclass(frozen=True, slots=True)
class CompletionEndpoint:
    reader: BodyReader

    def read(self, incoming: Incoming) -> tuple[GenerationRequest, ReplyShape]:
        request = self.reader.completion(incoming.json_body())
        model = request.adapter or self.reader.model
        return request, CompletionShape(f"cmpl-{incoming.base_id}", incoming.created, model, request.logprobs or 0)
