"""Guests with a kernel, disks and network links of their own, for tests that need root or modules.

``doc/source/contributor/lab.rst`` describes their use. ``lab/guests/run`` runs a script in a
guest.
"""
