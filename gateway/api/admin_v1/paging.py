"""Pagination of lists: page size, cursor and link to the next page."""

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
    """Query parameters without unknown names, so that a misspelled filter does not return everything."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Listed(BaseModel, Generic[T]):
    """Shape of a list response, used in the OpenAPI description."""

    object: Literal["list"]
    data: list[T]
    has_more: bool
    next: str | None = Field(description="value of `after` for the next page; null on the last page")


class PageQuery(Query):
    limit: Annotated[int, Field(ge=1, le=MOST)] = Field(
        default=USUAL, description="maximum number of entries to return"
    )
    after: After | None = Field(
        default=None, description="value of `next` on the previous page; omit it for the first page"
    )


def listing(data: Sequence[Any], after: str | None) -> dict[str, Any]:
    """Return the response for a page. *after* is the cursor of the next page, or None for the last page."""
    return {"object": "list", "data": data, "has_more": after is not None, "next": after}


async def of_cursor(page: Awaitable[T]) -> T:
    """Await and return *page*, which was requested with a cursor in the parameter `after`.

    Raises:
        InvalidField: if the cursor is invalid.
    """
    try:
        return await page
    except InvalidField:
        raise InvalidField("'after' must be the value of `next` from a page of this list.", param="after") from None


def page_of(items: Mapping[str, T], page: PageQuery) -> tuple[list[T], str | None]:
    """Return a page of *items*, which are sorted by name, and the cursor of the next page.

    An item that exists throughout is listed exactly once, even if other items change between two pages. O(n).
    """
    names = list(items)
    start = 0 if page.after is None else bisect_right(names, page.after)
    end = start + page.limit
    return [items[name] for name in names[start:end]], names[end - 1] if end < len(names) else None
