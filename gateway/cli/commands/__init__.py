"""`warmgate team`, `key`, `workers`, `usage` and `audit`: the admin API as shell commands."""
