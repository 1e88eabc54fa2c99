from documentation.reference.http_api import page


def section(title: str) -> str:
    return page().partition(f"### {title}\n")[2].partition("\n### ")[0]


def test_an_operation_shows_its_parameters_and_its_answer() -> None:
    shown = section("`GET /admin/v1/keys`")

    assert "| `team` | query | string or null | List only keys of this team. |" in shown
    assert "Answer: [ListedKeyResponse](#listedkeyresponse)." in shown


def test_an_object_shows_its_fields() -> None:
    assert "| `measure` | `tokens_per_day`, `usd_per_day`, `usd_per_month` | yes |" in section("CreditBody")


def test_endpoints_of_workers_are_not_described_twice() -> None:
    """The page of endpoints has them."""
    assert "### `POST /v1/chat/completions`" not in page()
