"""Compute service: servers that use volumes of a block storage service, on hosts with agents.

The compute service is a small counterpart of Nova for machines without Nova. It is also a
demanding client of block storage, of which it uses only the interfaces for consumers: the Block
Storage API, and the attachment methods on the message bus. See decision 0023.

A server action in progress is called an *act* in the code. It is a row of the table ``acts``.
"""
