import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, NoReturn

import httpx
import pytest

from gateway.cli.demo import SIMULATE, DemoOptions, DemoStart, _start, demo_settings, introduction, run_demo
from gateway.server.listener import ServerError, bind
from gateway.settings import Settings, SettingsError

START = DemoStart(key="wg-demo-k", admin="wg-admin-a", console="l1nk", store=Path("/tmp/x/warmgate.db"))


def the_settings(environ: dict[str, str] | None = None, start: DemoStart = START) -> Settings:
    return demo_settings(DemoOptions(), ["http://a"], environ or {}, start)


@contextmanager
def started(manner: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.gateway.demo_process", manner]
    with (
        tempfile.TemporaryDirectory() as folder,  # for what is left behind by a demo that is killed
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": folder}
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def until_ready(stdout: IO[str] | None) -> list[str]:
    assert stdout is not None
    lines = []
    for line in stdout:
        lines.append(line)
        if line.startswith("ready: "):
            break
    return lines


def workers_in(introduced: str) -> dict[str, int]:
    """Addresses and process ids, as the introduction reports them."""
    return {url: int(pid) for url, pid in re.findall(r"(http://\S+)   \(stop it: kill (\d+)\)", introduced)}


def runs(pid: int) -> bool:
    """A process that has ended and was not collected yet does not run."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def all_end(pids: list[int], timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while any(runs(pid) for pid in pids) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return not any(runs(pid) for pid in pids)


@pytest.mark.parametrize(("manner", "stop"), [("simulates", signal.SIGINT), ("lingers", signal.SIGTERM)])
@pytest.mark.e2e
def test_it_is_ready_with_its_workers_and_stops_them_all(manner: str, stop: signal.Signals) -> None:
    """One line begins with ``ready:``; the settings hold the workers' addresses; a stop leaves nothing behind."""
    with started(manner) as process:
        lines = until_ready(process.stdout)
        workers = workers_in("".join(lines))
        assert list(workers) == httpx.get(lines[-1].removeprefix("ready: ").strip(), timeout=60).json()
        assert 2 == len(workers)
        assert all(runs(pid) for pid in workers.values())
        process.send_signal(stop)
        out, err = process.communicate(timeout=120)

    assert (0, "", "") == (process.returncode, out, err)
    assert 1 == sum(line.startswith("ready: ") for line in lines)
    assert not any(runs(pid) for pid in workers.values())


@pytest.mark.e2e
def test_workers_do_not_outlive_a_demo_that_was_killed() -> None:
    """Their standard input ends with it, and they with that: even one that heeds no signal."""
    with started("lingers") as process:
        workers = workers_in("".join(until_ready(process.stdout)))
        process.kill()

        assert all_end(list(workers.values()), timeout_s=20)


@pytest.mark.e2e
def test_a_worker_that_fails_ends_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    """With a sentence, and before it was ever ready."""
    with pytest.raises(ServerError, match=r"^A simulated worker exited while starting. Its error message is above\.$"):
        run_demo(
            DemoOptions(port=0, workers=2), environ={}, simulate=[sys.executable, "-S", "-c", "raise SystemExit(1)"]
        )

    assert ("", "") == capsys.readouterr()


def test_a_taken_port_is_reported_before_anything_starts() -> None:
    """The command for a worker, which would fail, is never run."""
    with closing(bind("127.0.0.1", 0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=f"^Cannot listen on 127.0.0.1 port {port}: Address already in use.$"):
            run_demo(DemoOptions(port=port), environ={}, simulate=["/no/such/program"])


def test_the_settings_are_the_options_with_variables_over_them() -> None:
    """`WARMGATE_*` counts in the demo as well, but the address is the one of the command line."""
    environ = {"WARMGATE_LOGGING__REQUESTS": "false", "WARMGATE_SERVER__PORT": "1"}

    settings = demo_settings(DemoOptions(strategy="round_robin", port=8081), ["http://a", "http://b"], environ, START)

    assert ("127.0.0.1", 8081) == (settings.server.host, settings.server.port)
    assert settings.logging.requests is False
    model = settings.models[0]
    assert ("tiny", "round_robin") == (model.name, model.strategy)
    assert "gpt-4o" in model.aliases
    assert ["http://a", "http://b"] == [worker.url for worker in model.workers]
    assert "/tmp/x/files" == settings.files.folder


def test_the_tokenizer_of_the_workers_can_be_at_hand(tmp_path: Path) -> None:
    """Else they are asked."""
    reported = [the_settings(start=replace(START, tokenizer=folder)) for folder in (tmp_path, None)]

    assert [str(tmp_path), None] == [settings.models[0].tokenizer.path for settings in reported]


def test_a_tokenizer_is_written_for_the_strategy_that_can_use_it(tmp_path: Path) -> None:
    folder = _start(tmp_path, "kv_aware").tokenizer

    assert tmp_path / "tokenizer" == folder
    assert ["tokenizer.json", "tokenizer_config.json"] == sorted(path.name for path in folder.iterdir())
    assert _start(tmp_path, "prefix_aware").tokenizer is None


class TestSecrets:
    def test_no_two_starts_have_the_same(self, tmp_path: Path) -> None:
        """There is no key that everybody knows."""
        starts = [_start(tmp_path, "prefix_aware") for _ in range(2)]
        secrets = [secret for start in starts for secret in (start.key, start.admin)]

        assert 4 == len(set(secrets))
        assert [True] * 4 == [bool(re.fullmatch(r"wg-(demo|admin)-[\w-]{43}", secret)) for secret in secrets]
        assert not any(secret in repr(start) for start in starts for secret in secrets)

    def test_one_key_of_one_team_may_ask(self) -> None:
        """One administrator may do everything."""
        settings = the_settings()

        assert [("demo", [("demo", "wg-demo-k")])] == [
            (team.name, [(key.id, key.secret and key.secret.get_secret_value()) for key in team.keys])
            for team in settings.teams
        ]
        assert [("owner", "wg-admin-a")] == [
            (key.role, key.secret and key.secret.get_secret_value()) for key in settings.admin.keys
        ]

    def test_variables_come_before_them(self) -> None:
        environ = {
            "WARMGATE_TEAMS__0__KEYS__0__SECRET": "secret-of-mine",
            "WARMGATE_ADMIN__KEYS__0__SECRET": "admin-of-mine",
        }
        settings = the_settings(environ)
        text = introduction("http://127.0.0.1:8080", [], settings, START)

        assert "of-mine" not in text
        assert "wg-" not in text
        assert "authorization: Bearer YOUR_KEY" in text


def test_what_is_kept_is_kept_in_a_file() -> None:
    kept = the_settings({"WARMGATE_STORE__URL": "sqlite:///mine.db"})

    assert "sqlite:////tmp/x/warmgate.db" == the_settings().store.url
    assert "sqlite:///mine.db" == kept.store.url
    assert "(data in a temporary file, deleted on exit; to keep it, set WARMGATE_STORE__URL=" in introduction(
        "http://127.0.0.1:8080", [], the_settings(), START
    )
    assert "(data in the configured store)" in introduction("http://127.0.0.1:8080", [], kept, START)


def test_a_wrong_variable_is_reported() -> None:
    with pytest.raises(SettingsError, match="WARMGATE_LOGING__LEVEL is not a setting; did you mean"):
        the_settings({"WARMGATE_LOGING__LEVEL": "info"})


def test_the_introduction_reports_what_to_try() -> None:
    """A request with the key, the SDK, how to stop a worker, where the metrics are; no line like the ready line."""
    text = introduction("http://127.0.0.1:8080", [(4711, "http://127.0.0.1:18101")], the_settings(), START)

    assert "curl -i http://127.0.0.1:8080/v1/chat/completions -H 'authorization: Bearer wg-demo-k'" in text
    assert 'OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="wg-demo-k")' in text
    assert "export WARMGATE_ADMIN_URL=http://127.0.0.1:8080 WARMGATE_ADMIN_KEY=wg-admin-a\n" in text
    assert "warmgate key create --team blue" in text
    assert "http://127.0.0.1:18101   (stop it: kill 4711)" in text
    assert "http://127.0.0.1:8080/metrics" in text
    assert "warmgate workers list" in text
    assert "curl http://127.0.0.1:8080/warmgate/explain -H 'authorization: Bearer wg-admin-a'" in text
    assert not any(line.startswith("ready: ") for line in text.splitlines())


@pytest.mark.e2e
def test_examples_connect_to_this_machine_if_the_demo_listens_on_all_addresses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A container publishes its port, and clients cannot connect to 0.0.0.0 everywhere."""

    def stop(_: Settings) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_demo(DemoOptions(host="0.0.0.0", port=0, workers=1), environ={}, create_app=stop)

    assert re.search(r"curl -i http://127\.0\.0\.1:\d+/v1/chat/completions", capsys.readouterr().out)


def test_the_introduction_knows_a_port_of_the_admin_routes() -> None:
    """Where the settings have one; a free one learns when it is open."""
    texts = [
        introduction("http://127.0.0.1:8080", [], the_settings({"WARMGATE_ADMIN__PORT": port}), START)
        for port in ("8081", "0")
    ]

    assert "export WARMGATE_ADMIN_URL=http://127.0.0.1:8081 " in texts[0]
    assert "export WARMGATE_ADMIN_URL=THE_ADDRESS_BELOW " in texts[1]


def test_a_worker_is_this_program() -> None:
    """Started by the interpreter that runs the demo, on a port of its own, and never without its parent."""
    assert (sys.executable, "-m", "gateway", "simulate", "--port", "0") == SIMULATE[:6]
    assert "--exit-with-parent" in SIMULATE
