"""Unit tests of the gate and of its lines."""
