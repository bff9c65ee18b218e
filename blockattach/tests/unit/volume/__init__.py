"""Unit tests of the keeper of a backend."""
