"""Scheduler, which selects a pool for a volume, claims its capacity and notifies its manager."""
