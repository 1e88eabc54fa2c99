"""Test whether the core is compiled. In a compiled core, loops over numbers are faster than numpy, but in interpreted
Python they are much slower.
"""

from typing import Final

IS_COMPILED: Final = not __file__.endswith(".py")
"""Whether the core was compiled with mypyc, as in the container image (deploy/compile_core.py)."""
