"""Queries, races and migrations on real databases."""
