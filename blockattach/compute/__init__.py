"""The consumer: servers that use volumes of a block storage service, on hosts that agents serve.

It is Nova's part in small, for machines without Nova, and a demanding client of the API: it knows
of block storage only what any client may ask for. See decision 0023.
"""
