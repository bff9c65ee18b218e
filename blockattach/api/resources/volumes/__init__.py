"""Volumes: what bytes are kept on."""
from blockattach.api.resources.volumes.operations import OPERATIONS

__all__ = ('OPERATIONS',)
