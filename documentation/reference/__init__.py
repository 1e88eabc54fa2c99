"""Reference pages that are generated from the code. See README.md."""
