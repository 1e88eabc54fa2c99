from benchmarks.cache_size import parse_arguments, run

ARGUMENTS = ["--blocks", "300", "1500", "--strategies", "kv_aware", "round_robin", "--users", "4", "--sessions", "4"]


def test_each_policy_has_its_hit_rate_by_the_tokens_of_a_cache() -> None:
    report = run(parse_arguments(ARGUMENTS))

    assert {"kv_aware", "round_robin"} == report.figures["hit rate"].keys()
    assert [307_200, 1_536_000] == [tokens for tokens, _ in report.figures["hit rate"]["kv_aware"]]
    assert ("strategy", "307,200 tokens", "1,536,000 tokens") == report.tables[0].columns


def test_no_cache_is_large_enough_for_round_robin_to_hit_as_much_as_routing_by_events() -> None:
    hits = run(parse_arguments(ARGUMENTS)).figures["hit rate"]

    assert hits["kv_aware"][1][1] > hits["round_robin"][1][1]
