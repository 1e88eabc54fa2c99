"""`warmgate team`, `key`, `usage` and `audit`: the admin API for people at a terminal, and for their scripts."""
