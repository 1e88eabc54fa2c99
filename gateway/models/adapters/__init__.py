"""LoRA adapters: which workers have loaded them, their extra cost elsewhere, and loading on demand."""
