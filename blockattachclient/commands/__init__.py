"""Commands, one module for each. ``setup.cfg`` has their names."""
