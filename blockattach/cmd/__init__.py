"""Entry points of the commands, which read the configuration and run objects of the wiring."""
