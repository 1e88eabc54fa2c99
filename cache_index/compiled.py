"""The test for a compiled core, in which loops over numbers are faster than numpy; as Python they are far slower."""

from typing import Final

IS_COMPILED: Final = not __file__.endswith(".py")
"""Whether mypyc has compiled the core, as in the image (deploy/compile_core.py)."""
