"""Commands of ``openstack`` for the additions of blockattach to the Block Storage API.

The package is separate from `blockattach`, so that the commands import no code of the service.
"""
