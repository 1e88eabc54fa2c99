"""All pictures of the documentation, by the names of their files in docs/pictures."""

from collections.abc import Callable, Mapping
from pathlib import Path

from documentation.pictures import dashboards, saturation, ttft_against_load
from documentation.pictures.architecture import architecture
from documentation.pictures.hit_rate_against_cache_size import hit_rate_against_cache_size
from documentation.pictures.pod_shutdown import pod_shutdown
from documentation.pictures.predicted_and_event_fed import predicted_and_event_fed
from documentation.pictures.quickstart import quickstart
from documentation.pictures.radix_tree import radix_tree
from documentation.pictures.request_sequence import request_sequence
from documentation.pictures.token_bucket import token_bucket
from documentation.pictures.will_it_help_me import will_it_help_me

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"

PICTURES: Mapping[str, Callable[[], str]] = {
    "architecture": architecture,
    **dashboards.pictures(),
    "hit-rate-against-cache-size": hit_rate_against_cache_size,
    "pod-shutdown": pod_shutdown,
    "predicted-and-event-fed": predicted_and_event_fed,
    "quickstart": quickstart,
    "radix-tree": radix_tree,
    "request-sequence": request_sequence,
    "saturation-requests": saturation.requests,
    "saturation-streams": saturation.streams,
    "token-bucket": token_bucket,
    "ttft-against-load": ttft_against_load.chat,
    "ttft-against-users": ttft_against_load.coding_agents,
    "will-it-help-me": will_it_help_me,
}


def write(folder: Path) -> None:
    """Draw every picture into *folder*."""
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw(), encoding="utf-8")
