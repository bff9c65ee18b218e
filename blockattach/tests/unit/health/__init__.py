"""Tests of whether a process can work."""
