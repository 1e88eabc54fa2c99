from deploy.grafana.written import DASHBOARDS
from documentation.pictures.dashboards import pictures, unrecorded


def test_every_panel_has_an_answer_to_its_queries() -> None:
    """`python -m tests.deploy.record_dashboards` records them again."""
    assert [] == unrecorded()


def test_every_dashboard_has_a_picture_with_each_of_its_rows() -> None:
    drawn = {name: draw() for name, draw in pictures().items()}

    assert {f"dashboard-{dashboard.name}" for dashboard in DASHBOARDS} == drawn.keys()
    assert [] == [
        row.title
        for dashboard in DASHBOARDS
        for row in dashboard.rows
        if f">{row.title}</text>" not in drawn[f"dashboard-{dashboard.name}"]
    ]


def test_no_address_is_shown() -> None:
    assert [] == [name for name, draw in pictures().items() if "127.0.0.1" in draw() or "localhost" in draw()]
