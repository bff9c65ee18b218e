"""Volumes: what is read, what is written, and where they are placed."""
