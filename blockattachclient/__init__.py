"""Commands of `openstack` for what blockattach offers beyond the Block Storage API.

A package of its own beside `blockattach`: a client imports nothing of the service.
"""
