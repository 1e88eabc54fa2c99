"""Immutable values, which are equal if their class and fields are equal.

They are classes with slots, not Structs or dataclasses: hundreds of fields are read for every request, and compiled
code reads its own classes' fields in a twentieth of the time of a Struct's (`deploy/compile_core.py`).
"""

from typing import Any, ClassVar, Self


class Value:
    """Base of values. A derived class names its fields in ``__match_args__``, in the order of its arguments."""

    __match_args__: ClassVar[tuple[str, ...]] = ()
    __slots__ = ()

    def fields(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def changed(self, **changes: Any) -> Self:
        """Return a copy with *changes*."""
        kept = {name: getattr(self, name) for name in self.__match_args__}
        return type(self)(**(kept | changes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and type(self) is type(other) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(self.fields())

    def __repr__(self) -> str:
        fields = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__match_args__])
        return f"{type(self).__name__}({fields})"
