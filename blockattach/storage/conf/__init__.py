"""Options by group: fields of a frozen dataclass of settings, ``OPTS`` for oslo.config.

No class keeps a ConfigOpts: the wiring reads settings once and hands them down.
"""
