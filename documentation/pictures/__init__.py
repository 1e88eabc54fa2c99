"""Pictures of the documentation, drawn as SVG from code and from stored results. See ../README.md."""
