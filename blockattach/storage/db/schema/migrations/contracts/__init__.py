"""Revisions that take away what no process of this release needs any more."""
