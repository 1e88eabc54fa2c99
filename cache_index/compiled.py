"""Check whether the core is compiled. Loops over numbers are faster than numpy in a compiled core, but much slower in
interpreted Python.
"""

from typing import Final

IS_COMPILED: Final = not __file__.endswith(".py")
"""Whether the core was compiled with mypyc, as in the container image (deploy/compile_core.py)."""
