"""Database of the compute service, with servers, volumes, server actions (acts) and agents.

All SQL of the compute service is in this package.
"""
