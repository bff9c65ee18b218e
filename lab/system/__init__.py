"""Tests of whole clouds: crashes, upgrades under load. Run by `tools/run-system-tests`."""
