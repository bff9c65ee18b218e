"""Tests of whole clouds: crashes, restarts, upgrades under load. Run by `tools/run-system-tests`."""
