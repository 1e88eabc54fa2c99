"""`warmgate team`, `key`, `workers`, `usage` and `audit`: the admin API for people at a terminal, and for scripts."""
