"""Tests of whole clouds: killed, upgraded under load. Run by `tools/run-system-tests`."""
