"""The listening side: an ASGI application on HTTP/1.1 connections of our own, with uvicorn's loop and life cycle."""
