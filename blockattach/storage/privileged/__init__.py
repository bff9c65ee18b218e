"""The few functions that run with rights, each in the privsep context of its kind of work."""
