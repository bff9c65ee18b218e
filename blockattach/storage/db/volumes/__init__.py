"""Volumes: queries, state changes, and the facts that the scheduler needs."""
