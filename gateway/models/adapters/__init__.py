"""LoRA adapters: which workers have loaded them, what they cost on other workers, and how they are loaded on demand."""
