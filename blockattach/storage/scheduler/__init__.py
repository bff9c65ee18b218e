"""Scheduler, which selects a pool for a volume, claims capacity on it and notifies its manager."""
