"""The lab: guests with a kernel, disks and links of their own, for what a test machine has not.

``doc/source/contributor/lab.rst`` says how to use it, ``lab/guests/run`` runs a script in a guest.
"""
