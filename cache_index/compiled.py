"""Whether the core is compiled: loops over numbers are then faster than numpy, and as Python far slower."""

from typing import Final

IS_COMPILED: Final = not __file__.endswith(".py")
"""By mypyc, as in the image (deploy/compile_core.py)."""
