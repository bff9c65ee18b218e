"""Options of block storage. Most modules have a dataclass of settings and ``OPTS`` of one group.

The code in `blockattach.wiring` reads the settings once and passes them to the constructors, so
that no other class needs a ConfigOpts.
"""
