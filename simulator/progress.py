"""Answers to one request, with the part of each answer that has been sent so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine_model.engine import EngineEvent, FirstToken, Token
from simulator.answers import Answer, answer
from simulator.bodies import GenerationRequest
from simulator.defects import NO_DEFECTS, Defects
from simulator.detokenizer import Detokenizer
from simulator.errors import ApiError
from simulator.guides import CallHead, guided_answer
from simulator.logprobs import TokenLogprobs, token_logprobs
from simulator.replies import CallPart, ChoiceText, usage_json
from simulator.schema_values import SchemaUnsupported
from simulator.sse import Json
from simulator.stops import Stopped
from simulator.tokens import TOKEN_BYTES, TokenSequence


@dataclass(slots=True, eq=False)
class Choice:
    """Answer with the part of its tokens that has been sent."""

    index: int
    prompt: TokenSequence
    answer: Answer
    detokenizer: Detokenizer
    call: CallHead | None = None
    """Beginning of the tool call, or None if the answer is not a tool call."""
    stopped: Stopped | None = None
    """Position at which a stop string cut the text, or None."""
    logprobs: Sequence[TokenLogprobs] | None = None
    """Log probabilities of all tokens, or None if not requested."""
    shown: list[str] = field(default_factory=list)
    """Text that was added by each sent token."""
    cached_tokens: int = 0
    is_aborted: bool = False
    """Whether the engine has aborted the answer."""
    reported: int = 0
    """Number of tokens that were reported in stream events."""

    @property
    def sent(self) -> int:
        """Number of the answer's tokens that have been sent."""
        return len(self.shown)

    @property
    def is_complete(self) -> bool:
        return self.sent == len(self.answer.tokens)

    @property
    def finish_reason(self) -> str | None:
        if self.is_complete:
            return self.answer.finish_reason
        return "abort" if self.is_aborted else None

    @property
    def token_ids(self) -> Sequence[int]:
        """Ids of the answer's tokens that have been sent."""
        return self.answer.tokens.ids[: self.sent]

    def is_due(self, interval: int) -> bool:
        """Return whether output is due now (see `make_request_output` in vllm/v1/engine/output_processor.py)."""
        return self.is_complete or not self.reported or self.sent - self.reported >= interval

    def send(self) -> None:
        """Count one more token as sent."""
        piece = self.detokenizer.feed(self.answer.tokens.ids[self.sent])
        if self.stopped is not None:
            piece = piece[: self.stopped.characters - sum(map(len, self.shown))]
        self.shown.append(piece)

    def text(self, reported: int, *, wants_ids: bool) -> ChoiceText:
        """Return the text that was sent after the first *reported* tokens of the answer."""
        before, text = "".join(self.shown[:reported]), "".join(self.shown)
        call = None
        if self.call is not None:
            arguments = text[max(self.call.characters, len(before)) :]
            call, text, before = CallPart(self.call.id, self.call.name, arguments, is_first=reported == 0), "", ""
        return ChoiceText(
            index=self.index,
            text=text[len(before) :],
            token_ids=self.token_ids[reported:] if wants_ids else None,
            prompt_token_ids=self.prompt.ids if wants_ids and reported == 0 else None,
            finish_reason=self.finish_reason,
            call=call,
            logprobs=None if self.logprobs is None else self.logprobs[reported : self.sent],
            stop_reason=self.stopped.string if self.stopped is not None and self.is_complete else None,
        )


class Progress:
    """Choices (alternative answers) of one request while the engine generates them."""

    def __init__(self, request: GenerationRequest, reply_id: str, *, defects: Defects = NO_DEFECTS) -> None:
        self.request = request
        self._defects = defects
        self.choices: dict[str, Choice] = {}
        for prompt, max_tokens in zip(request.prompts, request.max_tokens, strict=True):
            for number in range(request.choices_per_prompt):
                index = len(self.choices)
                self.choices[f"{reply_id}-{index}"] = _choice(request, prompt, max_tokens, number, index)

    @property
    def prompt_tokens(self) -> int:
        return sum(len(prompt) for prompt in self.request.prompts)

    @property
    def generated_tokens(self) -> int:
        return sum(choice.sent for choice in self.choices.values())

    @property
    def cached_tokens(self) -> int:
        """Number of cached tokens of each prompt, as reported for the first choice."""
        return sum(
            choice.cached_tokens
            for choice in self.choices.values()
            if choice.index % self.request.choices_per_prompt == 0
        )

    def usage(self) -> Json:
        return usage_json(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.generated_tokens,
            cached_tokens=self._defects.reported_cached_tokens(self.cached_tokens, self.prompt_tokens),
        )

    def note(self, event: EngineEvent) -> Choice | None:
        """Return the choice to which *event* added a token, which now counts as sent, or None if no token was added."""
        if not isinstance(event, FirstToken | Token):
            return None
        choice = self.choices[event.request_id]
        if isinstance(event, FirstToken):
            choice.cached_tokens = event.cached_tokens
        choice.send()
        return choice

    def abort(self) -> list[Choice]:
        """Drop the incomplete choices of the request and return them."""
        left = [choice for choice in self.choices.values() if not choice.is_complete]
        for choice in left:
            choice.is_aborted = True
        return left

    def untold(self, choice: Choice) -> ChoiceText:
        """Return the sent tokens of *choice* that no stream event has reported, or none if the engine aborted it."""
        return choice.text(choice.reported, wants_ids=self.request.return_token_ids)

    def whole(self) -> list[ChoiceText]:
        return [choice.text(0, wants_ids=self.request.return_token_ids) for choice in self.choices.values()]


def _choice(request: GenerationRequest, prompt: TokenSequence, max_tokens: int, number: int, index: int) -> Choice:
    """Return the choice *number* for *prompt*, with nothing sent yet. Raises `ApiError` if the request is invalid."""
    made, call = _answer(request, prompt, max_tokens, number)
    stopped = None
    if request.stops.strings and call is None:
        detokenizer = Detokenizer(prompt)
        pieces = [detokenizer.feed(token) for token in made.tokens.ids]
        stopped = request.stops.find(pieces, min_tokens=request.min_tokens)
    if stopped is not None:
        made = Answer(TokenSequence(made.tokens.packed[: stopped.tokens * TOKEN_BYTES]), "stop")
    logprobs = None
    if request.logprobs is not None:
        logprobs = token_logprobs(made.tokens.ids, before=prompt.ids[-1], others=request.logprobs)
    return Choice(index, prompt, made, Detokenizer(prompt), call, stopped, logprobs)


def _answer(
    request: GenerationRequest, prompt: TokenSequence, max_tokens: int, number: int
) -> tuple[Answer, CallHead | None]:
    if request.guide is None:
        made = answer(
            prompt,
            max_tokens=max_tokens,
            min_tokens=request.min_tokens,
            ignore_eos=request.ignore_eos,
            choice=number,
        )
        return made, None
    try:
        made, script = guided_answer(request.guide, prompt, max_tokens=max_tokens, choice=number)
    except SchemaUnsupported as error:
        raise ApiError(400, str(error)) from None
    return made, script.call
