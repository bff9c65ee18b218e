"""Builders of the object graphs of processes. They contain no decisions of the service."""
