"""Backup, restore and check of the store."""
