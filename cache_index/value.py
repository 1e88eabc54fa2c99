"""Immutable values. Two values are equal if they have the same class and equal fields.

The values are classes with slots instead of Structs or dataclasses. Hundreds of their fields are read for every
request, and compiled code reads fields of its own classes twenty times faster than those of a Struct
(`deploy/compile_core.py`).
"""

from typing import Any, ClassVar, Self

from cache_index.native import mypyc_attr


@mypyc_attr(acyclic=True)
class Value:
    """Base class of immutable values. Subclasses list their fields in ``__match_args__``, in the order of the
    constructor's arguments.
    """

    __match_args__: ClassVar[tuple[str, ...]] = ()
    __slots__ = ()

    def fields(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def changed(self, **changes: Any) -> Self:
        """Return a copy of the value with the fields in *changes* replaced."""
        kept = {name: getattr(self, name) for name in self.__match_args__}
        return type(self)(**(kept | changes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and type(self) is type(other) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(self.fields())

    def __repr__(self) -> str:
        fields = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__match_args__])
        return f"{type(self).__name__}({fields})"
