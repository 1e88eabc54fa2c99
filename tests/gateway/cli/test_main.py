import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest
import yaml

from gateway.cli.main import main
from gateway.server.listener import bind
from tests.simulator.listener import replayed

SMALLEST = "models: [{name: tiny, workers: [{url: 'http://127.0.0.1:1', api_key: sk-hidden}]}]\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "warmgate.yaml"
    path.write_text(SMALLEST)
    return path


async def asked_until(endpoint: str, count: int) -> list[list[bytes]]:
    """What can be replayed, once it is *count* messages, the end included."""
    while len(frames := await replayed(endpoint, 0)) < count:
        await asyncio.sleep(0.02)
    return frames


@contextmanager
def taken_port() -> Iterator[int]:
    with closing(bind("127.0.0.1", 0)) as taken:
        taken.listen()
        yield int(taken.getsockname()[1])


class TestCheck:
    def test_a_good_file_is_shown_in_effect(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Everything with its default, as YAML, secrets masked; exit code 0."""
        assert 0 == main(["check", "--config", str(config)])

        out, err = capsys.readouterr()
        assert 8080 == yaml.safe_load(out)["server"]["port"]
        assert "**********" == yaml.safe_load(out)["models"][0]["workers"][0]["api_key"]
        assert "hidden" not in out
        assert "" == err

    def test_a_bad_file_is_a_sentence_per_fault(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """On stderr; exit code 2."""
        config.write_text(f"{SMALLEST}server: {{prot: 1, host: 2}}\n")

        assert 2 == main(["check", "--config", str(config)])
        assert (
            "",
            (
                "server.host is 2; the value must be text (write it in quotes).\n"
                "server.prot is not a setting; did you mean 'port'.\n"
            ),
        ) == capsys.readouterr()

    def test_a_deprecated_setting_is_warned_of(
        self, config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On stderr, beside the settings in effect, which do not have it; exit code 0."""
        monkeypatch.setenv("WARMGATE_SERVER__IMPLEMENTATION", "uvicorn")

        assert 0 == main(["check", "--config", str(config)])

        out, err = capsys.readouterr()
        assert "implementation" not in yaml.safe_load(out)["server"]
        assert (
            "WARMGATE_SERVER__IMPLEMENTATION (server.implementation) is deprecated and has no effect: "
            "the gateway serves with uvicorn only. Remove this setting.\n"
        ) == err

    def test_variables_of_the_process_count(
        self, config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They are over the file, and a wrong one is a fault."""
        monkeypatch.setenv("WARMGATE_SERVER__PORT", "9000")

        assert 0 == main(["check", "--config", str(config)])
        assert 9000 == yaml.safe_load(capsys.readouterr().out)["server"]["port"]

        monkeypatch.setenv("WARMGATE_SERVER__PORT", "many")

        assert 2 == main(["check", "--config", str(config)])
        expected = "WARMGATE_SERVER__PORT (server.port) is 'many'; the value must be an integer.\n"
        assert expected == capsys.readouterr().err


class TestServe:
    def test_a_bad_file_stops_the_start(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """With the same sentences as check, and exit code 2."""
        path = tmp_path / "none.yaml"

        assert 2 == main(["serve", "--config", str(path)])
        assert ("", f"The configuration file {path} does not exist.\n") == capsys.readouterr()

    def test_the_picker_reads_the_same_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "none.yaml"

        assert 2 == main(["picker", "--config", str(path), "--listen", "127.0.0.1:9002"])
        assert ("", f"The configuration file {path} does not exist.\n") == capsys.readouterr()

    def test_a_taken_port_is_one_sentence(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """On stderr; exit code 1."""
        with taken_port() as port:
            config.write_text(f"{SMALLEST}server: {{port: {port}}}\n")

            assert 1 == main(["serve", "--config", str(config)])

        assert ("", f"Cannot listen on 127.0.0.1 port {port}: Address already in use.\n") == capsys.readouterr()

    def test_options_come_before_file_and_variables(
        self, config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WARMGATE_SERVER__PORT", "1")
        with taken_port() as taken:
            assert 1 == main(["serve", "-c", str(config), "--host", "127.0.0.1", "--port", str(taken)])

        assert f"Cannot listen on 127.0.0.1 port {taken}" in capsys.readouterr().err


class TestDemo:
    def test_a_taken_port_is_one_sentence(self, capsys: pytest.CaptureFixture[str]) -> None:
        """On stderr; exit code 1."""
        with taken_port() as port:
            assert 1 == main(["demo", "--port", str(port)])

        assert ("", f"Cannot listen on 127.0.0.1 port {port}: Address already in use.\n") == capsys.readouterr()


class TestSimulate:
    @pytest.mark.e2e
    def test_a_worker_serves_until_its_parent_is_gone(self) -> None:
        """It says its address, answers, and ends when its standard input does; `python -m gateway` is `warmgate`."""
        command = [sys.executable, "-m", "gateway", "simulate", "--port", "0", "--model", "mini", "--exit-with-parent"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("ready: ").strip()
            assert "mini" == httpx.get(f"{url}/v1/models", timeout=60).json()["data"][0]["id"]

            process.stdin.close()

            assert 0 == process.wait(30)
            assert "" == process.stdout.read()

    def test_a_taken_port_is_one_sentence(self, capsys: pytest.CaptureFixture[str]) -> None:
        """On stderr; exit code 1."""
        with taken_port() as port:
            assert 1 == main(["simulate", "--port", str(port)])

        assert ("", f"Cannot listen on 127.0.0.1 port {port}: Address already in use.\n") == capsys.readouterr()

    def test_a_host_that_no_one_knows_is_one_sentence(self, capsys: pytest.CaptureFixture[str]) -> None:
        """With the resolver's own words; exit code 1."""
        host = ".".join(["x" * 60] * 5)  # so long that no name server is asked, which might be silent
        assert 1 == main(["simulate", "--host", host, "--port", "0"])

        err = capsys.readouterr().err
        assert err.startswith(f"Cannot listen on {host} port 0: ")
        assert "Unknown error" not in err

    @pytest.mark.parametrize(
        ("arguments", "fault"),
        [
            (["--speed", "-1"], "speed must not be negative, got -1.0."),
            (["--shutdown-timeout", "-1"], "shutdown_timeout_s must be finite and not negative, got -1.0."),
            (["--dialect", "sglang", "--old-metrics"], "old_metrics requires dialect vllm, got sglang."),
            (
                ["--kv-events-port", "0", "--kv-events-batch-s", "-1"],
                "kv_events.batch_s must be finite and not negative, got -1.0.",
            ),
            (["--kv-events-dial", "here"], "kv_events.dial must begin with tcp:// or ipc://, got here."),
            (["--replay-port", "0"], "KV events need --kv-events-port or --kv-events-dial."),
            (["--lora-module", "a", "--lora-module", "a"], "lora_modules must have unique names, got a, a."),
            (["--role", "decode", "--lease-s", "0"], "lease_s must be above 0, got 0.0."),
            (
                ["--role", "prefill", "--dialect", "dynamo"],
                "role must be both if the dialect is dynamo or there are several ranks, got prefill.",
            ),
        ],
    )
    def test_options_that_make_no_worker_are_refused(
        self, arguments: list[str], fault: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With the simulator's own words; exit code 2."""
        assert 2 == main(["simulate", *arguments])
        assert ("", f"{fault}\n") == capsys.readouterr()

    def test_a_port_for_events_may_be_taken(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The sentence names that one; exit code 1."""
        with taken_port() as port:
            assert 1 == main(["simulate", "--port", "0", "--kv-events-port", str(port)])

        assert ("", f"Cannot listen on tcp://127.0.0.1:{port}: Address already in use.\n") == capsys.readouterr()

    def test_so_may_the_port_where_blocks_are_asked_for(self, capsys: pytest.CaptureFixture[str]) -> None:
        with taken_port() as port:
            assert 1 == main(["simulate", "--port", "0", "--role", "prefill", "--side-channel-port", str(port)])

        assert ("", f"Cannot listen on 127.0.0.1 port {port}: Address already in use.\n") == capsys.readouterr()

    @pytest.mark.e2e
    def test_events_are_published_as_it_is_reported(self) -> None:
        """Every flag arrives; the worker says where, and what it had to say can be asked for."""
        command = [sys.executable, "-m", "gateway", "simulate", "--port", "0", "--lora-module", "poet"]
        command += ["--kv-events-port", "0", "--replay-port", "0", "--kv-events-topic", "kv@a", "--kv-events-format"]
        command += ["array", "--kv-events-hashes", "signed", "--kv-events-replay-frames", "3", "--kv-events-first-seq"]
        command += ["1", "--kv-events-batch-s", "0.01", "--kv-events-buffer-steps", "5", "--enable-scale-out"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("ready: ").strip()
            source = httpx.get(f"{url}/kv_event_sources", timeout=60).json()["0"]
            httpx.post(f"{url}/v1/completions", json={"model": "poet", "prompt": [1] * 17, "max_tokens": 1}, timeout=60)
            rendered = httpx.post(f"{url}/v1/completions/render", json={"prompt": "a"}, timeout=60).json()
            (_, sequence, payload), _ = asyncio.run(asked_until(source["replay_endpoint"], 2))
            process.kill()

        ((name, (block,), parent, tokens, size, *_),) = msgspec.msgpack.decode(payload)[1]
        assert ("kv@a", 5) == (source["topic"], source["buffer_steps"])
        assert (1, "BlockStored", None, [1] * 16, 16) == (int.from_bytes(sequence, "big"), name, parent, tokens, size)
        assert -(2**63) <= block < 2**63
        assert [97] == rendered[0]["token_ids"]

    def test_the_tokenizer_is_written(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """With its template, and no worker starts; a place that is not one is a sentence and exit code 1."""
        assert 0 == main(["simulate", "--write-tokenizer", str(tmp_path / "made")])
        assert ["tokenizer.json", "tokenizer_config.json"] == sorted(
            path.name for path in (tmp_path / "made").iterdir()
        )

        (tmp_path / "file").write_text("")
        assert 1 == main(["simulate", "--write-tokenizer", str(tmp_path / "file")])
        assert ("", f"Cannot write to {tmp_path / 'file'}: File exists.\n") == capsys.readouterr()

    @pytest.mark.e2e
    def test_a_worker_speaks_the_dialect_that_it_is_reported(self) -> None:
        """SGLang has a path that the others have not."""
        command = [sys.executable, "-m", "gateway", "simulate", "--port", "0", "--dialect", "sglang"]
        command += ["--shutdown-timeout", "0.5", "--exit-with-parent"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("ready: ").strip()
            assert 200 == httpx.get(f"{url}/ready", timeout=60).status_code
            process.kill()


def test_the_version_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Also from a source tree that was never installed."""
    assert 0 == main(["version"])
    assert capsys.readouterr().out.startswith("warmgate")


def test_the_version_is_an_option_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--version"])

    assert 0 == raised.value.code
    assert capsys.readouterr().out.startswith("warmgate")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_a_shell_gets_its_completion_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["completion", shell])
    assert "serve" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["start"], "invalid choice: 'start'"),
        (["serve", "--port", "70000"], "argument --port: 70000 is not between 0 and 65535"),
        (["serve", "--log-level", "loud"], "argument --log-level: invalid choice: 'loud'"),
        (["completion", "cmd"], "argument shell: invalid choice: 'cmd'"),
        (["demo", "--workers", "0"], "argument --workers: 0 is not between 1 and"),
        (["demo", "--strategy", "random"], "argument --strategy: invalid choice: 'random'"),
        (["demo", "--port", "70000"], "argument --port: 70000 is not between 0 and 65535"),
        (["demo", "--port", "http"], "argument --port: 'http' is not a whole number"),
        (["demo", "--workers", "1.5"], "argument --workers: '1.5' is not a whole number"),
        (["simulate", "--tpot-ms", "fast"], "argument --tpot-ms: 'fast' is not a number"),
        (["simulate", "--tpot-ms", "0"], "argument --tpot-ms: 0 is not above 0"),
        (["simulate", "--timing", "slow"], "argument --timing: invalid choice: 'slow'"),
        (["simulate", "--dialect", "tgi"], "argument --dialect: invalid choice: 'tgi'"),
        (["simulate", "--role", "encode"], "argument --role: invalid choice: 'encode'"),
    ],
)
def test_bad_usage_exits_with_2(arguments: list[str], fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)

    assert 2 == raised.value.code
    assert fault in capsys.readouterr().err
