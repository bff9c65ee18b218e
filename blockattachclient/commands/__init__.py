"""Commands, each in a module of its own. ``setup.cfg`` registers them by name."""
