"""Privileged functions, which run in the privsep daemon for LIO or in the one for LVM."""
