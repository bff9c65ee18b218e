"""Unit tests of the HTTP machinery."""
