"""Entry points: read the configuration, ask the wiring for one object, run it."""
