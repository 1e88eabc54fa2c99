from pathlib import Path

import pytest

from documentation.staging import REPOSITORY, places, relinked, stage

ROOT = Path(__file__).parents[2]
SITES = {"docs/how-to/keys.md": "how-to/keys.md", "benchmarks/results/live.md": "performance/results/live.md"}


@pytest.mark.parametrize(
    ("link", "on_site"),
    [
        ("[a](../how-to/keys.md)", "[a](../how-to/keys.md)"),
        ("[a](../how-to/keys.md#rotate)", "[a](../how-to/keys.md#rotate)"),
        ("[a](../../benchmarks/results/live.md)", "[a](../performance/results/live.md)"),
        ("[a](../../gateway/README.md#map)", f"[a]({REPOSITORY}/blob/main/gateway/README.md#map)"),
        ("[a](../../deploy)", f"[a]({REPOSITORY}/tree/main/deploy)"),
        ("[a](#here)", "[a](#here)"),
        ("[a](https://example.com/x.md)", "[a](https://example.com/x.md)"),
        ("```sh\n[a](../../deploy)\n```", "```sh\n[a](../../deploy)\n```"),
    ],
)
def test_a_link_leads_to_the_same_page_on_the_site(link: str, on_site: str) -> None:
    assert on_site == relinked(link, "docs/concepts/x.md", "concepts/x.md", SITES, ROOT)


def test_a_result_links_to_pages_beside_it() -> None:
    page = "[profile](../README.md#profile) and [live](live.md)"

    assert f"[profile]({REPOSITORY}/blob/main/benchmarks/README.md#profile) and [live](live.md)" == relinked(
        page, "benchmarks/results/x.md", "performance/results/x.md", SITES, ROOT
    )


def test_the_site_has_all_pages_of_docs_and_all_results(tmp_path: Path) -> None:
    stage(ROOT, tmp_path / "pages")

    assert (tmp_path / "pages/performance/results/live.md").is_file()
    assert (tmp_path / "pages/project/changelog.md").read_text().startswith("# Changelog")
    assert [] == [place for place in places(ROOT).values() if not (tmp_path / "pages" / place).is_file()]


def test_staging_again_removes_pages_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/old.md").write_text("# Old")

    stage(ROOT, tmp_path / "pages")

    assert not (tmp_path / "pages/old.md").exists()
