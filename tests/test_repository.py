"""Facts about the repository itself: what a reader may rely on without looking at every file."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.settings.table import describe
from tests.structure import has_source

ROOT = Path(__file__).parents[1]
PACKAGES = ("cache_index", "routing", "engine_model", "replay", "gateway", "simulator")
ROOMS = tuple(sorted(f"gateway/{path.parent.name}" for path in (ROOT / "gateway").glob("*/__init__.py")))
PAGES = tuple(
    sorted(
        str(path.relative_to(ROOT))
        for folder in ("", ".github", *PACKAGES, "benchmarks", "deploy", "docs", "documentation", "tests")
        for path in ((ROOT / folder).rglob("*.md") if folder else ROOT.glob("*.md"))
        if "results" not in path.parts and path.name != "CHANGELOG.md"
    )
)
"""Every Markdown page but what the benchmarks wrote, and but the CHANGELOG, which names what there once was."""

WITHOUT_TEST = {
    "gateway/app/identity.py": "composition; tests/e2e/test_identity_tokens.py",
    "gateway/app/identity_rules.py": "data only",
    "gateway/tenancy/identity/issuer.py": "data only",
    "gateway/tenancy/identity/admin_person.py": "data, and a Protocol; the tests of admin_tokens.py",
    "cache_index/counts.py": "data only",
    "cache_index/event.py": "data only",
    "cache_index/index.py": "a Protocol; tests/cache_index/test_radix.py holds its implementation to it",
    "gateway/api/admin_v1/gateway_facts.py": "data only",
    "gateway/app/announcements.py": "tests/gateway/app/test_serving.py",
    "gateway/app/processes/joining.py": "tests/e2e/test_processes.py",
    "gateway/app/processes/link.py": "tests/e2e/test_processes.py",
    "gateway/app/processes/messages.py": "tests/gateway/app/processes/test_child.py",
    "gateway/app/processes/serving.py": "tests/e2e/test_processes.py",
    "gateway/app/batch_webhooks.py": "tests/e2e/test_batch_webhooks.py runs it",
    "gateway/app/batches.py": "tests/e2e/test_batches.py",
    "gateway/batch/contents.py": "a Protocol; tests/contracts/contents_harness.py holds every implementation to it",
    "gateway/batch/counters.py": "data only",
    "gateway/batch/line_runner.py": "tests/gateway/batch/test_runner.py",
    "gateway/batch/line_store.py": "a Protocol; tests/contracts/test_line_store.py holds every implementation to it",
    "gateway/batch/plan_child.py": "tests/gateway/batch/test_planner.py",
    "gateway/batch/redis_lines.py": "tests/contracts/test_line_store.py",
    "gateway/batch/sqlite_lines.py": "tests/contracts/test_line_store.py",
    "gateway/batch/records.py": "a Protocol; tests/contracts/test_record_store.py holds every implementation to it",
    "gateway/batch/redis_records.py": "tests/contracts/test_record_store.py",
    "gateway/batch/sqlite_records.py": "tests/contracts/test_record_store.py",
    "gateway/console/identity_provider.py": "data, and a Protocol; tests/gateway/app/test_openid_provider.py",
    "gateway/console/page.py": "data only",
    "gateway/backends/backend.py": "Protocols; tests/contracts/test_backend.py holds every implementation to them",
    "gateway/backends/delivery.py": "a Protocol; tests/gateway/picker/test_picker.py holds its implementation to it",
    "gateway/picker/answer.py": "tests/gateway/picker/test_picker.py plays Envoy's side of it",
    "gateway/picker/other_requests.py": "tests/gateway/picker/test_picker.py plays Envoy's side of it",
    "gateway/picker/rules.py": "data only",
    "gateway/backends/bedrock/wire.py": "Protocols, and data; the tests of converse_wire.py and openai_wire.py",
    "gateway/backends/fallbacks/fallback_request.py": "data only",
    "gateway/workers/discovery/discovery.py": "a Protocol; tests/contracts/test_discovery.py",
    "gateway/proxy/guardrails/filter.py": "a Protocol, and data; tests/contracts/test_filter.py",
    "gateway/proxy/guardrails/stream_form.py": "a Protocol; the tests of chunks.py and named_events.py",
    "gateway/workers/kubernetes/kubernetes_error.py": "data only",
    "gateway/workers/kubernetes/objects.py": "data only",
    "gateway/workers/replicas/bus.py": "Protocols; tests/gateway/workers/replicas/test_channel.py, and test_hub_bus.py",
    "gateway/workers/kv_events/counters.py": "data only",
    "gateway/workers/kv_events/feed.py": "a Protocol; the tests of worker_feed.py",
    "gateway/tenancy/ledger/record.py": "data only",
    "gateway/tenancy/quota/limit.py": "data only",
    "gateway/tenancy/quota/meter.py": "tests/contracts/test_quota_cases.py holds it to a table of cases",
    "gateway/tenancy/quota/quota_store.py": "a Protocol; tests/contracts/test_quota_store.py",
    "gateway/server/asgi.py": "names of types only",
    "gateway/tenancy/teams/limits.py": "data only",
    "gateway/tenancy/teams/team.py": "data only",
    "gateway/tenancy/teams/team_store.py": "a Protocol; tests/contracts/test_team_store.py",
    "gateway/models/response_caching.py": "data only",
    "gateway/models/tokenizing/asked.py": "data only",
    "gateway/models/tokenizing/engine_flags.py": "data only",
    "gateway/models/tokenizing/token_source.py": "a Protocol, and data",
    "gateway/app/alerts.py": "tests/e2e/test_alerts_killed.py runs it",
    "gateway/tenancy/alerts/alert_store.py": "a Protocol, and data",
    "gateway/tenancy/alerts/redis_alerts.py": "tests/contracts/test_alert_store.py",
    "gateway/tenancy/alerts/sqlite_alerts.py": "tests/contracts/test_alert_store.py",
    "replay/policy.py": "a Protocol, and data",
    "routing/request.py": "data only",
    "routing/booking_observer.py": "a Protocol; tests/gateway/workers/replicas/test_outbox.py tests its implementation",
    "routing/strategy.py": "a Protocol; tests/contracts/test_strategy.py holds every implementation to it",
}
"""Modules that have no test file of their own, and why; `__init__` and `__main__` never need one."""

# In pieces, so that this file does not hold what it looks for.
NEVER_WRITTEN = {
    "a path of somebody's machine": ["/" + "work/", "/" + "root/", "/" + "tmp/bash_jobs"],
    "the host of a registry": [
        "files." + "pythonhosted.org",
        "pypi" + ".org/simple",
        "registry." + "npmjs.org",
        "deb." + "debian.org",
    ],
}

EXAMPLES = {"NAME.md", "pages/NAME.py", "tests/gateway/console/pages/test_NAME.py", "my-values.yaml", ".peers/"}
"""Names that pages give to files of their readers, and a folder that a command makes."""


def modules() -> list[str]:
    """Every module with code, as a path from the root."""
    found = (path for package in (*PACKAGES, "documentation") for path in (ROOT / package).rglob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in found if path.stem not in ("__init__", "__main__"))


def mirror_of(module: str) -> Path:
    path = Path(module)
    return ROOT / "tests" / path.parent / f"test_{path.name}"


def paths_in(page: str) -> list[str]:
    """What stands in backticks in *page* and is a file or folder by its look; fenced examples do not count."""
    prose = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    named = re.findall(r"`([\w.][\w./-]*(?:\.(?:md|py|toml|txt|yaml)|/))`", prose)
    return [path for path in named if path not in EXAMPLES]


def written_files() -> Iterator[tuple[str, str]]:
    """Path and text of every file that is tracked, or would be if it were added."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file():
            content = path.read_bytes()
            if b"\0" not in content:
                yield name, content.decode("utf-8", errors="replace")


def normal(package: str) -> str:
    """The name of a package as all its spellings have it, PEP 503."""
    return re.sub(r"[-_.]+", "-", package).lower()


def required() -> set[str]:
    """What pyproject.toml asks for, of runtime and extras, but for our own name."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    extras = [line for lines in project.get("optional-dependencies", {}).values() for line in lines]
    names = {normal(re.split(r"[\s\[<>=!~;@(]", line, maxsplit=1)[0]) for line in [*project["dependencies"], *extras]}
    return names - {normal(project["name"])}


def constraints() -> list[str]:
    lines = (ROOT / "deploy" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def test_every_module_has_its_test_file() -> None:
    """`tests/<package>/test_<module>.py` is where to look, and where to add."""
    assert [] == [name for name in modules() if name not in WITHOUT_TEST and not mirror_of(name).is_file()]


def test_no_exception_is_out_of_date() -> None:
    """Each module that needs no test file exists and has none."""
    assert [] == [module for module in WITHOUT_TEST if not (ROOT / module).is_file() or mirror_of(module).exists()]


@pytest.mark.parametrize("what", NEVER_WRITTEN)
def test_no_file_reports_where_it_was_written(what: str) -> None:
    """It would be wrong on every other machine."""
    assert [] == [name for name, text in written_files() if any(part in text for part in NEVER_WRITTEN[what])]


def test_every_constraint_pins_one_version() -> None:
    """`name==version`, and no package twice under any spelling."""
    pinned = [re.fullmatch(r"([A-Za-z0-9._-]+)==[A-Za-z0-9.!+_-]+", line) for line in constraints()]
    names = [normal(match[1]) for match in pinned if match is not None]

    assert [] == [line for line, match in zip(constraints(), pinned, strict=True) if match is None]
    assert [] == sorted({name for name in names if names.count(name) > 1})


def test_every_dependency_is_pinned() -> None:
    assert set() == required() - {normal(line.partition("==")[0]) for line in constraints()}


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    """Within the repository; and each setting that a page names is one."""
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if "://" not in target]
    settings = set(re.findall(r"`(server\.[a-z0-9_]+)[`:]", text))

    assert [] == [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()]
    assert set() == settings - {row.path for row in describe()}


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page: str) -> None:
    """Relative to the page, to the root, or somewhere below the folder of the page."""
    folder = (ROOT / page).parent

    def exists(path: str) -> bool:
        beside = folder != ROOT and next(folder.rglob(path.rstrip("/")), None) is not None
        return beside or (folder / path).exists() or (ROOT / path).exists()

    assert [] == [path for path in paths_in(page) if not exists(path)]


@pytest.mark.parametrize(
    "package", ["cache_index", "routing", "gateway", "documentation", "documentation/reference", *ROOMS]
)
def test_every_module_is_on_the_map_of_its_package(package: str) -> None:
    """One line for each module, and one for each package inside."""
    entries = [path for path in (ROOT / package).iterdir() if not path.name.startswith("__") and has_source(path)]
    inside = {path.name for path in entries if path.suffix == ".py"}
    folders = {f"{path.name}/" for path in entries if path.is_dir()}

    assert set() == (inside | folders) - set(paths_in(f"{package}/README.md"))


def test_a_test_that_starts_a_process_has_to_be_marked() -> None:
    """`make test` runs none that does: tests/conftest.py fails it."""
    with pytest.raises(pytest.fail.Exception, match="mark it e2e"):
        subprocess.run([sys.executable, "-c", ""], check=True)
