"""Snapshots in the database: queries, state changes, and reverts of volumes to snapshots."""
