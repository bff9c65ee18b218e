"""Scheduler, which selects a pool for a volume, claims capacity, and calls the volume manager."""
