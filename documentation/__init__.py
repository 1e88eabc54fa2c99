"""Documentation site: staging of the pages in docs/, the build with Zensical, and checks. See README.md."""
