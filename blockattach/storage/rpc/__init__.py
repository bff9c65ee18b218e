"""RPC interfaces of block storage, their clients, and their versions by release."""
