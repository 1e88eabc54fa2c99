"""HTTP/1.1 server that runs an ASGI application, with its own connection handling and uvicorn's event loop and life
cycle.
"""
