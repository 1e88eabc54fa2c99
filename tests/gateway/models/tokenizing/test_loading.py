"""From a folder to tokens."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from gateway.models.tokenizing.exactness import Exact, UnusableFolder
from gateway.models.tokenizing.loading import load_local, use_no_threads_of_its_own
from gateway.models.tokenizing.token_source import RawPrompt
from tests.gateway.models.tokenizing.examples import HELLO, IM_END, IM_START, NEW_YEAR, ids, tiny_tokenizer
from tests.gateway.models.tokenizing.templates import CHATML

CHAT = RawPrompt("/v1/chat/completions", b'{"messages":[{"role":"user","content":"hello"}]}', "m")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def folder(tmp_path: Path, template: str | None = CHATML) -> Path:
    tiny_tokenizer().save(str(tmp_path / "tokenizer.json"))
    config = {"eos_token": "<|im_end|>", "chat_template": template}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


async def test_a_folder_gives_tokens(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """The template in the folder is used."""
    made = load_local(folder(tmp_path), executor=pool)

    assert Exact(ids(IM_START, "user\n", HELLO, IM_END, "\n", IM_START, "assistant\n"), 20) == await made.ids(CHAT)


async def test_another_template_can_be_named(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """The clock of the template can be set, too."""
    source = "{{ strftime_now('%Y') }}{{ eos_token }}"

    made = load_local(folder(tmp_path), executor=pool, chat_template=source, now=lambda: NEW_YEAR)

    assert Exact(ids("2026", IM_END), 5) == await made.ids(CHAT)


def test_a_template_that_does_not_compile_is_reported(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """At once, not with the first request."""
    with pytest.raises(UnusableFolder, match="does not compile"):
        load_local(folder(tmp_path, "{% for %}"), executor=pool)


def test_a_tokenizer_that_refuses_texts_is_reported(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """It would refuse prompts as well."""
    folder(tmp_path)
    Tokenizer(models.WordLevel(vocab={"a": 0}, unk_token="<nothing>")).save(str(tmp_path / "tokenizer.json"))

    with pytest.raises(UnusableFolder, match="does not accept every text"):
        load_local(tmp_path, executor=pool)


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """The text names what is missing."""
    with pytest.raises(UnusableFolder, match=r"no tokenizer_config\.json"):
        load_local(tmp_path / "nowhere", executor=pool)


def test_packages_that_are_missing_are_reported(
    tmp_path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With how to get them."""
    monkeypatch.setitem(sys.modules, "jinja2", None)

    with pytest.raises(UnusableFolder, match=r"jinja2 is not installed: pip install 'warmgate\[tokenizer\]'"):
        load_local(folder(tmp_path), executor=pool)


@pytest.mark.e2e
def test_the_library_is_reported_to_use_no_threads() -> None:
    """Native code reads this environment."""
    use_no_threads_of_its_own()

    code = "import os; print(os.environ['TOKENIZERS_PARALLELISM'])"
    assert "false\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
