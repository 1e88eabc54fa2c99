"""The official SDKs that `make test` has no room for, against the demo: `make sdk-smoke`.

It needs a registry of Python packages and one of npm, and nothing else: Node comes as a Python package. pytest collects
nothing here.
"""
