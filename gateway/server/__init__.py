"""HTTP/1.1 server that runs an ASGI application. It handles connections itself, and uses uvicorn's event loop and life
cycle.
"""
