"""Compute API: servers and their volumes, compatible with Nova's clients."""
