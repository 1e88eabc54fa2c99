"""Lists in pages: how much is wanted, behind what, and where the next page begins."""

from bisect import bisect_right
from collections.abc import Awaitable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from gateway.protocol.errors import InvalidField

T = TypeVar("T")

MOST = 1000
USUAL = 100
LONGEST_CURSOR = 1000

After = Annotated[str, Field(min_length=1, max_length=LONGEST_CURSOR)]


class Query(BaseModel):
    """Query that rejects unknown parameters: a misspelled filter must not return everything."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Listed(BaseModel, Generic[T]):
    """The form of the answer, for its description."""

    object: Literal["list"]
    data: list[T]
    has_more: bool
    next: str | None = Field(description="`after` for the next page; null: this is the last page")


class PageQuery(Query):
    limit: Annotated[int, Field(ge=1, le=MOST)] = Field(
        default=USUAL, description="maximum number of entries to return"
    )
    after: After | None = Field(default=None, description="`next` of the previous page; if omitted: the first page")


def listing(data: Sequence[Any], after: str | None) -> dict[str, Any]:
    """The answer of a page; *after* is where the next one begins, None at the end."""
    return {"object": "list", "data": data, "has_more": after is not None, "next": after}


async def of_cursor(page: Awaitable[T]) -> T:
    """*page*, asked for with an `after` that is a cursor.

    Raises:
        InvalidField: it is not a cursor.
    """
    try:
        return await page
    except InvalidField:
        raise InvalidField("'after' must be the `next` value of a page of this list.", param="after") from None


def page_of(items: Mapping[str, T], page: PageQuery) -> tuple[list[T], str | None]:
    """The *page* of *items*, which are in the order of their names, and where the next one begins.

    What exists throughout is listed exactly once, whatever changes between two pages. O(n).
    """
    names = list(items)
    start = 0 if page.after is None else bisect_right(names, page.after)
    end = start + page.limit
    return [items[name] for name in names[start:end]], names[end - 1] if end < len(names) else None
