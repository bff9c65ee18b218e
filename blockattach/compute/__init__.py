"""Compute service: servers that use volumes of a block storage service, on hosts with agents.

It is a small counterpart of Nova for machines without Nova, and a demanding client of the Block
Storage API, of which it uses only the public part. See decision 0023.
"""
