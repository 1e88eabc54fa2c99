"""The documentation site: pages of docs/ staged, built by Zensical, and checked. See README.md."""
