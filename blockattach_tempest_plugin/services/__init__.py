"""Tempest service clients of attachments with the extension."""
from blockattach_tempest_plugin.services.attachments_client import AttachmentsClient

__all__ = ['AttachmentsClient']
