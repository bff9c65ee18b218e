"""User messages about failures: numbers and sentences of ``cinder.message.message_field``.

The actions and details with numbers from 050 are defined by this service, because Cinder has no
number for these cases.
"""
from typing import NamedTuple


class Text(NamedTuple):
    """Action and detail of a user message, each as a stable number and a sentence.

    :ivar resource_type: ``VOLUME`` or ``VOLUME_SNAPSHOT``, as in ``message_field.Resource``
    """

    action_id: str
    action: str
    detail_id: str
    detail: str
    resource_type: str = 'VOLUME'

    @property
    def event_id(self) -> str:
        """Event id for programs: ``VOLUME_<resource>_<action>_<detail>``."""
        return f'VOLUME_{self.resource_type}_{self.action_id}_{self.detail_id}'

    @property
    def user_message(self) -> str:
        """Text for people: ``<action>:<detail>``, as in Cinder."""
        return f'{self.action}:{self.detail}'


NO_VALID_POOL = Text('001', 'schedule allocate volume',
                     '003', 'Could not find any available weighted backend.')
DRIVER_CREATE_FAILED = Text('008', 'create volume from backend storage',
                            '012', 'Driver failed to create the volume.')
CREATE_CANCELLED = Text('001', 'schedule allocate volume',
                        '053', 'Cancelled by an administrator.')
SNAPSHOT_CREATE_FAILED = Text('009', 'create snapshot', '013', 'Snapshot failed to create.',
                              'VOLUME_SNAPSHOT')
SNAPSHOT_MANAGE_FAILED = Text('009', 'create snapshot', '058',
                              'Backend failed to manage the storage.', 'VOLUME_SNAPSHOT')
SNAPSHOT_DELETE_FAILED = Text('010', 'delete snapshot', '016', 'Snapshot failed to delete.',
                              'VOLUME_SNAPSHOT')
SNAPSHOT_CANCELLED = Text('009', 'create snapshot', '053', 'Cancelled by an administrator.',
                          'VOLUME_SNAPSHOT')
REVERT_FAILED = Text('055', 'revert volume to snapshot',
                     '055', 'Backend failed to revert the volume.')
MIGRATE_NO_POOL = Text('056', 'migrate volume',
                       '003', 'Could not find any available weighted backend.')
MIGRATE_FAILED = Text('056', 'migrate volume', '056', 'Backend failed to receive the volume.')
MIGRATE_CANCELLED = Text('056', 'migrate volume', '053', 'Cancelled by an administrator.')
RETYPE_NO_POOL = Text('057', 'retype volume',
                      '003', 'Could not find any available weighted backend.')
RETYPE_FAILED = Text('057', 'retype volume', '056', 'Backend failed to receive the volume.')
RETYPE_CANCELLED = Text('057', 'retype volume', '053', 'Cancelled by an administrator.')
ATTACH_FAILED = Text('002', 'attach volume', '021', 'Failed to attach volume.')
DETACH_FAILED = Text('002', 'attach volume', '022', 'Failed to detach volume.')
EXTEND_NO_POOL = Text('007', 'extend volume',
                      '003', 'Could not find any available weighted backend.')
EXTEND_UNNOTICED = Text('007', 'extend volume',
                        '009', 'Compute service failed to extend volume.')
EXTEND_FAILED = Text('007', 'extend volume', '010', 'Volume Driver failed to extend volume.')
EXTEND_CANCELLED = Text('007', 'extend volume', '053', 'Cancelled by an administrator.')
_FROM_STORAGE = ('008', 'create volume from backend storage')
MANAGE_NO_POOL = Text(*_FROM_STORAGE, '003', 'Could not find any available weighted backend.')
MANAGE_FAILED = Text(*_FROM_STORAGE, '058', 'Backend failed to manage the storage.')
MANAGE_CANCELLED = Text(*_FROM_STORAGE, '053', 'Cancelled by an administrator.')
UNMANAGE_FAILED = Text('006', 'unmanage volume', '001', 'An unknown error occurred.')
UNMANAGE_CANCELLED = Text('006', 'unmanage volume', '053', 'Cancelled by an administrator.')
DELETE_FAILED = Text('050', 'delete volume', '050', 'Backend refused to delete the volume.')
RESERVATION_ABANDONED = Text('002', 'attach volume', '051',
                             'No connector was provided in time. The reservation was released.')
CONNECTION_ABANDONED = Text('002', 'attach volume', '052',
                            'The attachment was not completed in time. The host was '
                            'disconnected.')
_TO_IMAGE = ('003', 'copy volume to image')
_FROM_IMAGE = ('005', 'copy image to volume')
UPLOAD_FAILED = Text(*_TO_IMAGE, '004', 'Failed to upload volume to image at backend.')
UPLOAD_CANCELLED = Text(*_TO_IMAGE, '053', 'Cancelled by an administrator.')
DOWNLOAD_FAILED = Text(*_FROM_IMAGE, '001', 'An unknown error occurred.')
DOWNLOAD_CANCELLED = Text(*_FROM_IMAGE, '053', 'Cancelled by an administrator.')
IMAGE_TOO_LARGE = Text(*_FROM_IMAGE,
                       '007', 'Image used for creating volume exceeds available space.')
IMAGE_SIGNATURE_WRONG = Text(*_FROM_IMAGE, '011', 'Image signature verification failed.')
IMAGE_UNACCEPTABLE = Text(*_FROM_IMAGE,
                          '029', 'The image disk format must be the same as the volume format for '
                          'the volume type you are requesting.')
_REIMAGE = ('016', 'reimage volume')
REIMAGE_FAILED = Text(*_REIMAGE, '028', 'Compute service failed to reimage volume.')
REIMAGE_CANCELLED = Text(*_REIMAGE, '053', 'Cancelled by an administrator.')
