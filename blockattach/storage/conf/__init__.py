"""Options of block storage: a frozen dataclass of settings and ``OPTS`` for each group.

No class keeps a ConfigOpts. The wiring reads the settings once and passes them on.
"""
