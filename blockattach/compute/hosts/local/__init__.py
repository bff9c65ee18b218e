"""Volumes as block devices of the host itself, for containers and processes that an operator runs.
"""
