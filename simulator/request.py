"""One generation as the engine sees it: lengths and block hashes. What the tokens mean is not the engine's concern."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from simulator.blocks import PLAIN, BlockHash, BlockScope


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One sequence for an engine; *output_tokens* is known beforehand, as in a trace."""

    id: str
    """Unique among the requests an engine holds at one time."""
    prompt_tokens: int
    output_tokens: int
    block_hashes: Sequence[BlockHash] = field(repr=False)
    """Hashes of the full blocks from the first on: at least those of the prompt, then the known ones of the answer."""
    token_ids: Sequence[int] = field(default=(), repr=False)
    """Prompt and answer, for receivers of stored blocks; empty if unknown."""
    scope: BlockScope = PLAIN

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.output_tokens < 1:
            raise ValueError(
                f"prompt_tokens and output_tokens must be at least 1, got {self.prompt_tokens} and {self.output_tokens}"
            )

    @classmethod
    def from_trace(
        cls, request_id: str, hash_ids: Sequence[BlockHash], *, input_length: int, output_length: int, block_size: int
    ) -> "EngineRequest":
        """A line of a trace; the id of a last, partial block is dropped, and an empty answer counts as one token."""
        full_blocks = input_length // block_size
        if len(hash_ids) < full_blocks:
            raise ValueError(f"hash_ids has {len(hash_ids)} ids, {input_length} tokens have {full_blocks} full blocks")
        return cls(request_id, input_length, max(1, output_length), hash_ids[:full_blocks])
