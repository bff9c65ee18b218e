"""Tests that need nothing but Python; the tree mirrors the package."""
