"""Snapshots: what is read, what is written, and what happens to them with their volume."""
