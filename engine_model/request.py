"""Request in the form that the engine needs: lengths and block hashes, without the meaning of the tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine_model.blocks import PLAIN, BlockHash, BlockScope
from engine_model.host_tier import PeerTier


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """Request for one sequence from an engine. *output_tokens* is known in advance, as in a trace."""

    id: str
    """Request id, which is unique among the requests in an engine."""
    prompt_tokens: int
    output_tokens: int
    block_hashes: Sequence[BlockHash] = field(repr=False)
    """Hashes of the full blocks in order: all blocks of the prompt, followed by the known blocks of the answer."""
    token_ids: Sequence[int] = field(default=(), repr=False)
    """Token ids of the prompt and the answer for KV events. The sequence is empty if the ids are unknown."""
    scope: BlockScope = PLAIN
    peer: PeerTier | None = field(default=None, repr=False)
    """Host tier of another engine from which to pull the blocks that this engine lacks, or None."""

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.output_tokens < 1:
            raise ValueError(
                f"prompt_tokens and output_tokens must be at least 1, got {self.prompt_tokens} and {self.output_tokens}"
            )

    @classmethod
    def from_trace(
        cls, request_id: str, hash_ids: Sequence[BlockHash], *, input_length: int, output_length: int, block_size: int
    ) -> "EngineRequest":
        """Return the request in one line of a trace. Partial blocks are dropped, and an empty answer is one token."""
        full_blocks = input_length // block_size
        if len(hash_ids) < full_blocks:
            raise ValueError(
                f"hash_ids has {len(hash_ids)} ids, but {input_length} tokens have {full_blocks} full blocks"
            )
        return cls(request_id, input_length, max(1, output_length), hash_ids[:full_blocks])
