"""Options by group, ``OPTS``, each with a frozen settings dataclass whose fields are called alike.

No class keeps a ConfigOpts: the wiring reads settings once and hands them down.
"""
