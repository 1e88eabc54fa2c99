from documentation.pictures.ttft_against_load import chat, coding_agents

LABELS = ["Warmgate, precise", "Warmgate, approximate", "late binding with ageing", "llm-d", "Dynamo"]


def test_every_router_has_its_label() -> None:
    assert [] == [label for label in LABELS if f">{label}<" not in chat()]
    assert [] == [label for label in LABELS if f">{label}<" not in coding_agents()]


def test_the_file_of_the_figures_is_named() -> None:
    assert "From benchmarks/results/replay.json." in chat()
    assert "From benchmarks/results/replay.json." in coding_agents()
