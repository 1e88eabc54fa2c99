"""The listening side: an ASGI application under uvicorn, until SIGINT or SIGTERM.

    asgi           the shapes of ASGI
    listener       the socket, bound first
    descriptors    the files that may be open, and how many clients that is
    stop_signals   what asks for the end
    stop           how it comes: asked, told, due, forced
    collector      the cycle collector
    process        that, malloc, and how threads take turns
    header_names   names of headers that came before
    date_line      the header date, once a second
    addresses      connections by their addresses
    request_rules  what the specification asks of a head, and the parser does not
    message_ends   where heads and bodies end in what came
    cycle          one request and its response, as the application sees them
    connection     one client's connection: HTTP/1.1, within limits
    on_uvicorn     under uvicorn's loop and life cycle, on those connections
    admin_port     a second application, on a port of its own
    serving        all of it, for the gateway

Each imports those above it only.
"""

from gateway.server.asgi import App, Message, Receive, Send
from gateway.server.listener import ServerError, address_of, bind
from gateway.server.serving import Announce, CreateApp, announce_on_stdout, serve

__all__ = [
    "Announce",
    "App",
    "CreateApp",
    "Message",
    "Receive",
    "Send",
    "ServerError",
    "address_of",
    "announce_on_stdout",
    "bind",
    "serve",
]
