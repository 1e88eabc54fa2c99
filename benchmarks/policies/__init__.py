"""Published routing policies, written from their descriptions, to be replayed beside ours."""
