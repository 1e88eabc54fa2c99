"""Attributes of classes for the compiler (deploy/compile_core.py). Interpreted Python ignores them.

This package has no other module, because the compiler leaves out files named ``__init__.py``: a compiled module could
not define the substitute below.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # the package is not needed at run time
    from mypy_extensions import mypyc_attr as mypyc_attr
else:
    Class = TypeVar("Class", bound=type)

    def mypyc_attr(**_attributes: object) -> Callable[[Class], Class]:
        """Return a decorator that changes nothing."""
        return lambda decorated: decorated


__all__ = ["mypyc_attr"]
