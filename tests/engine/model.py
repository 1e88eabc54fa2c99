"""`python model.py FOLDER`, under .venv-vllm: 4.5 MB of seeded weights that answer nonsense.

Run by path, since it needs the packages of vLLM's environment and none of ours. Three choices make answers depend on
every token of the prompt, so that a lost or mixed-up prompt shows: weights drawn with a deviation of 0.1 instead of the
usual 0.02, and an output layer of its own (tied to the embeddings, it mostly repeats the last token); and attention
that looks at few tokens sharply, for spread evenly over 700 tokens the first of them makes no difference: with factors
of 1 in the norms of queries and keys nine prompts with different first words had one answer, with 2 they had nine.
The output weights of what is no text are zero, so that greedy answers are readable and end at their limit only.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch  # type: ignore[import-not-found, unused-ignore]  # of the other environment, as all below
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # type: ignore[import-not-found, unused-ignore]
from transformers import (  # type: ignore[import-not-found, unused-ignore]
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SEED = 2026
SHARPNESS = 2.0
VOCABULARY = 8000
CONTEXT_TOKENS = 16384
END, TURN, END_OF_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CONVERSATIONS = Path(__file__).parents[2] / "benchmarks" / "traces" / "tau_airline_conversations.jsonl"
"""What the tokenizer is trained on, for tokens of a usual length."""

CHAT_TEMPLATE = (Path(__file__).parent / "chat_template.jinja").read_text(encoding="utf-8")


def make(folder: Path) -> None:
    """Write configuration, tokenizer and weights; the same at every call with the same packages."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=trained(texts()),
        eos_token=END_OF_TURN,
        pad_token=END,
        model_max_length=CONTEXT_TOKENS,
        chat_template=CHAT_TEMPLATE,
    )
    tokenizer.save_pretrained(folder)
    language_model = seeded(tokenizer)
    language_model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    language_model.save_pretrained(folder)


def texts() -> Iterator[str]:
    with CONVERSATIONS.open(encoding="utf-8") as lines:
        for line in lines:
            for message in json.loads(line)["messages"]:
                yield message.get("content") or ""


def trained(corpus: Iterator[str]) -> Tokenizer:
    """A byte-level BPE: any text is tokens, and its tokens are the text again."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END, TURN, END_OF_TURN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def seeded(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    torch.manual_seed(SEED)
    language_model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            max_position_embeddings=CONTEXT_TOKENS,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            dtype="float32",
        )
    )
    with torch.no_grad():
        for name, weights in language_model.named_parameters():
            if "norm" in name:
                weights.fill_(SHARPNESS if name.endswith(("q_norm.weight", "k_norm.weight")) else 1.0)
            else:
                weights.normal_(0.0, 0.1)
        language_model.lm_head.weight[[token for token in range(VOCABULARY) if not is_text(tokenizer, token)]] = 0.0
    return language_model


def is_text(tokenizer: PreTrainedTokenizerFast, token: int) -> bool:
    """Not an end mark, not half a character, and not one of the ids for which the texts had no use."""
    text: str = tokenizer.decode([token], skip_special_tokens=True)
    return bool(text) and "\ufffd" not in text


if __name__ == "__main__":
    make(Path(sys.argv[1]))
