"""Tests of blockattach, by layer."""
