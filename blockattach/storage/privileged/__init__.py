"""Privileged calls, which run in the privsep daemon for LIO or in that for LVM."""
