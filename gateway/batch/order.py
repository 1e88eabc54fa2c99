"""Order in which to run the lines of a batch.

1. Lines whose prompts begin alike follow each other, so that a worker computes a shared prefix once. Prompts are
   compared block by block, by hashes: lines with the same first blocks are neighbors, as in a depth-first walk through
   the tree of prefixes.
2. Lines with little to compute are woven among the others. Their answers take most of their time, and a worker decodes
   them while it computes the prompts of the others. Without that, the workers that have these lines only decode, and
   the others only compute prompts: the batch of benchmarks/batch.py would take 318 s in place of 294 s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

LIGHT_SHARE: Final = 0.25
"""Share of the mean step of all lines up to which the lines of a run are light. From 0.1 to 0.5, it hardly matters."""
_BLOCK_BYTES: Final = 256
"""Bytes of a prompt that one hash stands for, about four blocks of an engine."""
_HASH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class OrderedLine:
    """Line at its place in the order."""

    index: int
    """Place of the line in the list of all lines."""
    step_bytes: int
    """Length of the part of the prompt that follows what it has in common with its neighbor."""


@dataclass(slots=True)
class _Run:
    """Lines that follow each other. The first of them is mostly new, and each other one shares most of its prompt."""

    lines: list[OrderedLine]
    step_bytes: int = 0


def run_order(keys: Sequence[bytes], sizes: Sequence[int]) -> list[OrderedLine]:
    """Return all lines in the order in which to run them, by their sort keys and the lengths of their prompts.

    Lines with equal keys keep their order. O(n log n).
    """
    light, heavy = _by_weight(_runs(keys, sizes))
    # Each list is spread evenly over the whole order. Its lines keep their order, and so their neighbors.
    woven = [((place + 0.5) / len(light), 0, line) for place, line in enumerate(light)]
    woven += [((place + 0.5) / len(heavy), 1, line) for place, line in enumerate(heavy)]
    woven.sort(key=lambda each: each[:2])
    return [line for _, _, line in woven]


def sort_key(model: str, prompt: bytes) -> bytes:
    """Return the hashes of the blocks of *prompt*, after the hash of *model*. Neighbors have similar keys."""
    blocks: list[Any] = [model.encode("utf-8", "surrogatepass")]
    blocks += [prompt[at : at + _BLOCK_BYTES] for at in range(0, len(prompt), _BLOCK_BYTES)]
    return b"".join([blake2b(block, digest_size=_HASH_BYTES).digest() for block in blocks])


def shared_bytes(key: bytes, other: bytes) -> int:
    """Return the number of bytes with which the prompts of two sort keys begin alike, in whole blocks."""
    low, high = 0, min(len(key), len(other)) // _HASH_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if key[: middle * _HASH_BYTES] == other[: middle * _HASH_BYTES]:
            low = middle
        else:
            high = middle - 1
    return max(0, low - 1) * _BLOCK_BYTES  # the first hash is that of the model


def _runs(keys: Sequence[bytes], sizes: Sequence[int]) -> list[_Run]:
    """Return all lines in the order of their keys, divided before each line of which more than half is new."""
    runs: list[_Run] = []
    before = b""
    for index in sorted(range(len(keys)), key=keys.__getitem__):
        step = sizes[index] - min(sizes[index], shared_bytes(before, keys[index]))
        if not runs or 2 * step > sizes[index]:
            runs.append(_Run([]))
        runs[-1].lines.append(OrderedLine(index, step))
        runs[-1].step_bytes += step
        before = keys[index]
    return runs


def _by_weight(runs: Sequence[_Run]) -> tuple[list[OrderedLine], list[OrderedLine]]:
    """Return the lines of runs with little to compute per line, and the lines of all other runs."""
    count = sum(len(run.lines) for run in runs)
    limit = LIGHT_SHARE * sum(run.step_bytes for run in runs) / max(1, count)
    light: list[OrderedLine] = []
    heavy: list[OrderedLine] = []
    for run in runs:
        (light if run.step_bytes <= limit * len(run.lines) else heavy).extend(run.lines)
    return light, heavy
