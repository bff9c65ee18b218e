"""The manager of a backend: makes volumes, connects hosts, and keeps its target as rows say."""
