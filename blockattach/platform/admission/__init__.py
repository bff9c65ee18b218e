"""Admission control: how much a process works on at once; what is beyond that waits or is shed."""
