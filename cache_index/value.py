"""Values: never changed once they are made, and equal where they are of the same class with equal fields.

Classes with slots, and no Structs and no dataclasses: hundreds of fields are read for every request, and compiled code
reads those of its own classes in a twentieth of the time that it takes for a Struct's (`deploy/compile_core.py`).
"""

from typing import Any, ClassVar, Self


class Value:
    """A class derived from it names its fields, in the order in which they are given, in ``__match_args__``."""

    __match_args__: ClassVar[tuple[str, ...]] = ()
    __slots__ = ()

    def fields(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def changed(self, **changes: Any) -> Self:
        """One like it, but for *changes*."""
        kept = {name: getattr(self, name) for name in self.__match_args__}
        return type(self)(**(kept | changes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and type(self) is type(other) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(self.fields())

    def __repr__(self) -> str:
        told = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__match_args__])
        return f"{type(self).__name__}({told})"
