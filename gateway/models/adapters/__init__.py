"""LoRA adapters: which worker has one, the extra cost elsewhere, and loading on demand."""
