"""Options of block storage. Each module has a dataclass of settings and ``OPTS`` for one group.

The code in `blockattach.wiring` reads the settings once and passes them to the constructors, so
that no other class needs a ConfigOpts.
"""
