"""Volumes: queries, state changes, and the input of the scheduler."""
