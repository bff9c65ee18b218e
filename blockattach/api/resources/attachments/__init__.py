"""Attachments: a volume that a host uses, or is about to."""
from blockattach.api.resources.attachments.operations import OPERATIONS

__all__ = ('OPERATIONS',)
