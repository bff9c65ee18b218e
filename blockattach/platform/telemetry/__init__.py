"""Telemetry for operators: metrics, traces, and state reports on demand."""
