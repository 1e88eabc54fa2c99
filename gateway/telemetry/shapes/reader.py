"""Read the recorded shapes of requests."""

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gateway.telemetry.shapes.layout import RECORD, SUFFIX, UNKNOWN, frames
from gateway.telemetry.shapes.shape import Run, RunTable, Shape, Steps

_Names = tuple[str | None, str | None, str | None, str | None, int, int]


class _Head(msgspec.Struct):
    version: int
    run: str


def read_shapes(directory: Path, *, since: float = -math.inf, model: str | None = None) -> list[Shape]:
    """Return the shapes in the files of *directory* that arrived at the Unix time *since* or later, ordered by arrival.

    With *model*, only requests of this model are returned. Frames after a damaged one are skipped. A file that is
    deleted meanwhile is skipped too.

    Raises:
        OSError: a file cannot be read.
    """
    tables: dict[str, RunTable] = {}
    found: list[Shape] = []
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        found.extend(shape for shape in _in_file(data, tables) if shape.at >= since and model in (None, shape.model))
    return sorted(found, key=lambda shape: shape.at)


def _in_file(data: bytes, tables: dict[str, RunTable]) -> Iterator[Shape]:
    """Yield the shapes of one file. *tables* are the runs of each process in earlier files."""
    known: list[_Names] = []
    table: RunTable | None = None
    for names, records in frames(data):
        if table is None:
            table = tables.setdefault(msgspec.json.decode(names, type=_Head).run, RunTable())
            continue
        known += msgspec.json.decode(names, type=list[_Names])
        for record in RECORD.iter_unpack(records):
            shape = _shape(record, known, table)
            if shape is not None:
                yield shape


def _shape(record: tuple[float, ...], known: list[_Names], table: RunTable) -> Shape | None:
    at, ttft_s, duration_s, queued_s = record[:4]
    name, session, parent, shared, first, new, prompt_bytes, prompt_tokens, cached, output_tokens, streams = map(
        int, record[4:]
    )
    table.add(Run(first, new, parent, shared))
    team, model, strategy, worker, tokens_per_step, bytes_per_step = known[name]
    if model is None:
        return None
    return Shape(
        at=at,
        team=team,
        model=model,
        strategy=strategy,
        worker=worker,
        session=session,
        ttft_s=None if math.isnan(ttft_s) else ttft_s,
        duration_s=duration_s,
        queued_s=queued_s,
        prompt_tokens=prompt_tokens,
        cached_tokens=None if cached == UNKNOWN else cached,
        output_tokens=output_tokens,
        streams=bool(streams),
        prompt_bytes=prompt_bytes,
        tokens_per_step=tokens_per_step,
        bytes_per_step=bytes_per_step,
        steps=Steps(table, parent=parent, shared=shared, first=first, new=new),
    )
