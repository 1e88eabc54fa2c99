"""Loading of a `LocalTokenizer` from a model's folder, if the required packages are installed."""

import os
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.models.tokenizing.engine_flags import EngineFlags
from gateway.models.tokenizing.exactness import Unknowable, UnusableFolder

if TYPE_CHECKING:
    from gateway.models.tokenizing.local import LocalTokenizer

CACHE_BYTES = 64 * 2**20
"""Size of one model's cache of token ids and text in bytes, enough for about five million tokens of short messages."""


def load_local(
    folder: Path,
    *,
    executor: Executor,
    flags: EngineFlags | None = None,
    chat_template: str | None = None,
    now: Callable[[], datetime] = datetime.now,
    cache_bytes: int = CACHE_BYTES,
    budget_s: float = 0.05,
    max_pending: int = 8,
) -> "LocalTokenizer":
    """Return a tested tokenizer for the model in *folder*. Call this outside the event loop, because a large vocabulary
    takes two seconds.

    *chat_template* is the text of the template that engines use instead of the model's own (``--chat-template``). *now*
    returns the local time of the engines, for templates that write the date. *executor* must be shut down completely
    before the event loop is closed.

    Raises:
        UnusableFolder: if a required file or package is missing or invalid.
    """
    try:
        import jinja2  # noqa: PLC0415 - an extra, needed on this path only

        from gateway.models.tokenizing.chat_template import ChatTemplate  # noqa: PLC0415
        from gateway.models.tokenizing.local import LocalTokenizer  # noqa: PLC0415
        from gateway.models.tokenizing.model_folder import read_model_folder  # noqa: PLC0415
        from gateway.models.tokenizing.segment_cache import SegmentCache  # noqa: PLC0415
        from gateway.models.tokenizing.segments import Segments  # noqa: PLC0415
    except ImportError as fault:
        raise UnusableFolder(f"{fault.name} is not installed: pip install 'warmgate[tokenizer]'") from fault
    use_no_threads_of_its_own()
    read = read_model_folder(folder)
    templates = read.templates if chat_template is None else {"default": chat_template}
    try:
        template = ChatTemplate(templates, special_tokens=read.special_tokens, flags=flags or EngineFlags(), now=now)
    except jinja2.TemplateError as fault:
        raise UnusableFolder(f"the chat template does not compile: {fault}") from fault
    try:
        segments = Segments(read.tokenizer, SegmentCache(max_bytes=cache_bytes))
    except Unknowable as fault:
        raise UnusableFolder("the tokenizer does not accept every text") from fault
    return LocalTokenizer(
        segments,
        template if templates else None,
        executor=executor,
        budget_s=budget_s,
        max_pending=max_pending,
    )


def use_no_threads_of_its_own() -> None:
    """Make the package `tokenizers` work only in the calling thread, for the whole process and from now on.

    By default, it distributes each call over a pool with one thread per core. On a busy machine, that adds milliseconds
    to microseconds of work, and long prompts take the cores from everything else. The only switch is this variable,
    which the package reads at each call.
    """
    os.putenv("TOKENIZERS_PARALLELISM", "false")
