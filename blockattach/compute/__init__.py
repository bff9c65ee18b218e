"""Compute service: servers that use volumes of a block storage service, on hosts with agents.

The compute service is a small counterpart of Nova for machines without Nova. It uses only public
requests of the Block Storage API, and tests the API as a demanding client. See decision 0023.

A server action in progress is called an *act* in the code. It is a row of the table ``acts``.
"""
