"""The group for tuning."""

from tests.gateway.settings.examples import SMALLEST, parsed


def test_former_places_set_the_same() -> None:
    former = "routing: {depth_s: 0.1, other_zone_s: 0.2}\nkv_events: {cpu_price: 0.3}\nretry: {stall_s: 4}"
    advanced = parsed(f"{SMALLEST}\n{former}").advanced

    assert (0.1, 0.2, 0.3, 4.0) == (
        advanced.release_depth_s,
        advanced.zone_penalty_s,
        advanced.cpu_tier_price,
        advanced.stall_s,
    )
