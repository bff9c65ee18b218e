"""Tests that kill, stop and starve real processes and servers. Run by `tools/run-faults`."""
