"""Versioned objects that are sent between processes. They contain data only."""
