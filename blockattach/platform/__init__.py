"""Shared infrastructure of all services: HTTP, message bus, database, options, policy, telemetry.

This package imports neither block storage nor compute code.
"""
