"""Database of the compute service: servers, their volumes, acts and agents.

All SQL of the compute service is in this package.
"""
