"""Entry points of the commands. They read the configuration, and run objects of the wiring."""
