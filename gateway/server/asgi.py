"""Type aliases for the ASGI interface."""

from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Coroutine[Any, Any, None]]
