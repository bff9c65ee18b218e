"""Tests that walk the whole tree and hold its rules."""
