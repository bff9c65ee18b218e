"""A module for each command; ``setup.cfg`` gives each its name."""
