"""Tests over HTTP of the whole API on a real database."""
