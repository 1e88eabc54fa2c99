"""LoRA adapters: which worker has one, what it costs that another has not, and loading it there."""
