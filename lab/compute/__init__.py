"""Tests of servers as real QEMU guests on real targets. Run by `tools/run-compute`."""
