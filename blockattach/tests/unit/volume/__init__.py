"""Unit tests of the manager of a backend."""
