"""Snapshots: queries, state changes, and reverts of volumes to them."""
