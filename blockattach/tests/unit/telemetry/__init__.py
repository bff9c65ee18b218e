"""Metrics, traces and reports of the state."""
