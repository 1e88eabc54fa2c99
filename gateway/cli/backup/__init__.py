"""Backup, restore and consistency check of the gateway's store."""
