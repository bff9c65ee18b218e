"""Releases of the service, with the versions of their RPC interfaces and objects.

A release that changes an interface or an object is added to `RELEASES`. Tests compare the newest
release with the code.
"""
from blockattach.platform.rpc import contract

# Oldest first.
RELEASES: tuple[contract.Release, ...] = (
    contract.Release(
        '1.0',
        interfaces={'attachments': '1.1', 'compute': '1.2', 'compute-conductor': '1.0',
                    'process': '1.0', 'scheduler': '1.0', 'volume': '1.0'},
        objects={'Attachment': '1.0', 'AttachmentPayload': '1.0', 'BlockDevicePayload': '1.0',
                 'PoolsReport': '1.0', 'ServerActPayload': '1.0', 'VolumeRequest': '1.0',
                 'VolumeAttachmentPayload': '1.0'}),
)
