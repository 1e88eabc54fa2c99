from pathlib import Path

import pytest

from documentation.examples import Example, commands_in, examples_of, faults, settings_in

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))


@pytest.mark.parametrize("page", PAGES)
def test_every_example_in_the_pages_is_right(page: str) -> None:
    assert [] == faults((ROOT / page).read_text(encoding="utf-8"))


def test_a_block_has_its_language_line_and_mark() -> None:
    page = "# A\n\n<!-- settings: part -->\n```yaml\nteams: []\n```\n\n1. B:\n\n   ```sh\n   ls\n   ```\n"

    assert [Example("yaml", "teams: []\n", 4, "part"), Example("sh", "ls\n", 10)] == list(examples_of(page))


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("warmgate check -c a.yaml   # prints them", [["check", "-c", "a.yaml"]]),
        (".venv/bin/warmgate version", [["version"]]),
        ("KEY=1 warmgate version && warmgate demo", [["version"], ["demo"]]),
        ("warmgate key create \\\n  --team a", [["key", "create", "--team", "a"]]),
        ("kubectl exec deploy/warmgate -- warmgate version", [["version"]]),
        ("KEY=$(warmgate version)", [["version"]]),
        ("curl -d '{\n\"a\": 1}' x\nwarmgate version | grep 0", [["version"]]),
        ("cat > a <<'EOF'\nit's warmgate\nEOF\nwarmgate version", [["version"]]),
        ("helm install warmgate deploy/helm/warmgate", []),
        ("pip install warmgate", []),
        ("docker build -t warmgate .", []),
    ],
)
def test_commands_are_found_in_shell_scripts(script: str, commands: list[list[str]]) -> None:
    assert commands == list(commands_in(script))


@pytest.mark.parametrize(
    ("example", "groups"),
    [
        (Example("yaml", "teams: []", 1), {"models", "teams"}),
        (Example("yaml", "config: {teams: []}\nimage: {}", 1), {"models", "teams"}),
        (Example("yaml", "x: 1", 1, "part"), {"models", "x"}),
    ],
)
def test_a_part_of_a_settings_file_is_completed(example: Example, groups: set[str]) -> None:
    assert groups == set(settings_in(example) or {})


@pytest.mark.parametrize(
    "example",
    [
        Example("yaml", "apiVersion: v1\nkind: Secret", 1),
        Example("yaml", "- a", 1),
        Example("yaml", "models: []", 1, "other"),
    ],
)
def test_files_of_other_programs_show_no_settings(example: Example) -> None:
    assert settings_in(example) is None


@pytest.mark.parametrize(
    ("language", "text", "fault"),
    [
        ("yaml", "models: [{name: a, workrs: []}]", "workrs"),
        ("yaml", "a: [", "no YAML"),
        ("sh", "warmgate serve --hots a", "--hots"),
        ("sh", "echo 'a", "No closing quotation"),
        ("python", "print(", "no Python"),
        ("json", "{'a': 1}", "no JSON"),
    ],
)
def test_a_wrong_example_is_a_fault(language: str, text: str, fault: str) -> None:
    found = faults(f"```{language}\n{text}\n```\n")

    assert found
    assert fault in found[0]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("yaml", "teams: [{name: a, keys: [{id: b, secret_env: B}]}]"),
        ("sh", "warmgate --version"),
        ("json", '{"a": 1}\n{"a": 2}'),
        ("json", '{\n  "a": 1\n}'),
        ("text", "{"),
    ],
)
def test_a_right_example_is_no_fault(language: str, text: str) -> None:
    assert [] == faults(f"```{language}\n{text}\n```\n")
