"""Tests of rules that hold for the whole tree."""
