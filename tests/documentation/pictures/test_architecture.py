from documentation.pictures.architecture import architecture


def test_the_parts_of_the_system_are_there() -> None:
    parts = ["Clients", "Warmgate gateway", "Radix tree of prefixes", "Worker 1", "Worker 2", "Worker 3", "Bedrock"]

    assert [] == [part for part in parts if f">{part}<" not in architecture()]
