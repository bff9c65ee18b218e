"""Volume types: what a volume may ask of a pool, under a name."""
from blockattach.api.resources.volume_types.operations import OPERATIONS

__all__ = ('OPERATIONS',)
