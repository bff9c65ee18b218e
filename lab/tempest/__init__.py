"""Tempest tests of block storage on a whole cloud. Run by `tools/run-tempest`."""
