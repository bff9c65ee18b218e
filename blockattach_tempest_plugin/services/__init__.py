"""Clients of Tempest's for attachments with what the extension adds."""
from blockattach_tempest_plugin.services.attachments_client import AttachmentsClient

__all__ = ['AttachmentsClient']
