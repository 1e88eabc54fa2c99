"""Contents of one batch while it runs: its input file, the order of its lines, and the outputs of lines."""

from typing import Final

from gateway.batch.contents import Appender, Contents, ContentWriter
from gateway.batch.plan import ENTRY_BYTES, BatchLine, PlannedLine, planned_lines, read_line
from gateway.protocol.errors import FilesUnavailable

PAGE: Final = 256
"""Number of lines of the plan to read at once. They are neighbors, so the next lines are usually among them."""
PAGES: Final = 32
"""Maximum number of pages of the plan in memory: some of each worker's range."""


class BatchFiles:
    """Contents of the batch *batch_id*. Their names begin with its id."""

    def __init__(self, contents: Contents, batch_id: str) -> None:
        self.contents = contents
        self._batch_id = batch_id
        self._pages: dict[int, list[PlannedLine]] = {}

    @property
    def input(self) -> str:
        """Name of the input file. It is a copy, because the owner may delete the uploaded file while the batch runs."""
        return f"{self._batch_id}.input"

    @property
    def plan(self) -> str:
        """Name of the order of the lines."""
        return f"{self._batch_id}.plan"

    async def copy_input(self, file_id: str) -> None:
        """Keep an uploaded file until the batch ends.

        Raises:
            ContentMissing: if it does not exist.
            FilesUnavailable: if the storage does not answer.
        """
        await self.contents.copy(file_id, self.input)

    def plan_writer(self) -> ContentWriter:
        return self.contents.writer(self.plan)

    def appender(self, owner: str) -> Appender:
        """Return a writer for the outputs of the lines that *owner* runs."""
        return self.contents.appender(f"{self._batch_id}.{owner}.")

    async def line(self, place: int) -> tuple[PlannedLine, BatchLine]:
        """Return the line at *place* in the order of the batch.

        Raises:
            FilesUnavailable: if it cannot be read.
        """
        planned = await self._planned(place)
        data = await self.contents.read(self.input, planned.start, planned.length)
        if len(data) < planned.length:
            raise FilesUnavailable("The input file of the batch is shorter than it was when it was validated")
        return planned, read_line(data)

    async def clear(self) -> None:
        """Delete all contents of the batch, except its output file and its error file."""
        await self.contents.remove_all(f"{self._batch_id}.")

    async def _planned(self, place: int) -> PlannedLine:
        number, offset = divmod(place, PAGE)
        page = self._pages.pop(number, None)
        if page is None:
            size = PAGE * ENTRY_BYTES
            page = planned_lines(await self.contents.read(self.plan, number * size, size))
        while len(self._pages) >= PAGES:
            del self._pages[next(iter(self._pages))]
        self._pages[number] = page  # the latest is the last
        if offset >= len(page):
            raise FilesUnavailable("The plan of the batch is shorter than it was when it was written")
        return page[offset]
