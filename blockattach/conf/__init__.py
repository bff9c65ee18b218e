"""Options by group, each with ``register(conf)`` and a frozen settings dataclass.

Nobody keeps a ConfigOpts: the wiring reads settings once and hands them down.
"""
