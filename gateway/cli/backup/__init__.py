"""Backup, restore and consistency check of the store."""
