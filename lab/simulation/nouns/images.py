"""Images in the simulation.

A volume has the bytes of the image that it was created from, and none of those that it had before.
An uploaded image is complete in Glance, or is gone and a message tells the user why.
"""
import dataclasses
from collections.abc import Iterator
from collections.abc import Mapping

from blockattach.platform import units
from blockattach.storage.db import models
from blockattach.storage.domain import messages
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain.invariants import observed
from lab.simulation import clients
from lab.simulation import glance
from lab.simulation import operations
from lab.simulation.nouns import volumes

_Own = volume_lifecycle.OwnStatus
MOST = 4
_UPLOAD, _REIMAGE = 'os-volume_upload_image', 'os-reimage'
_ACTIVE = 'active'
WHOLE, SECOND, LARGE, _FORGED, _OTHER = (
    f'00000000-0000-4000-9000-{number:012x}' for number in range(5))
_IMAGES: Mapping[str, Mapping[str, object]] = {
    WHOLE: {}, SECOND: {}, LARGE: {'min_disk': 2}, _FORGED: {'os_hash_value': 'other'},
    _OTHER: {'disk_format': 'qcow2'}}
"""Images that exist from the beginning. The last two cannot be used: the data of one does not
match its hash, and the other would have to be converted.
"""
# Statuses in which the data of a volume is transmitted.
_AT_WORK = (_Own.DOWNLOADING, _Own.UPLOADING)
_USED = units.GIB - units.MIB
"""Offset at which a server writes to its volume."""


@dataclasses.dataclass(slots=True)
class _Filled:
    """Volume that was created from an image.

    ``marks``: the possible marks of the image that it was created from. ``fresh``: those of the
    images requested since, and ``asked`` is True if there was such a request. ``endings``: the
    count of the volume's endings when it was created. ``open``: the images of requests that may
    still be executed, each with its version at the time of the request.
    """

    marks: set[bytes]
    endings: int
    fresh: set[bytes] = dataclasses.field(default_factory=set)
    asked: bool = False
    open: list[tuple[str, int]] = dataclasses.field(default_factory=list)


class Images(clients.Played):
    """Volumes that clients have created from images, and images that they have uploaded."""

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._glance = consumers.deployed.glance
        self._filled: dict[str, _Filled] = {}
        self._uploads: dict[str, str] = {}
        """Volume of each image that was uploaded since the last peace."""
        self._removed: set[str] = set()
        for image_id, shown in _IMAGES.items():
            self._glance.marked(image_id, **dict(shown))

    @property
    def _volumes(self) -> volumes.Volumes:
        return self._all.of(volumes.Volumes)

    def _create(self) -> None:
        if len(self._volumes.kinds) < volumes.MOST + MOST:
            self.make(self._chance.choice(sorted(_IMAGES)), self._chance.randrange(1, 3))

    def make(self, image_id: str, size: int) -> str | None:
        """Create a volume from an image.

        :returns: its ID; None if the request failed or got no answer
        """
        before = self._glance.versions[image_id]
        answer = self._volumes.make({'size': size, 'imageRef': image_id}, 'plain')
        if answer.status != 202:
            return None
        self._filled.setdefault(answer.made, _Filled(
            self._marks(image_id, before), self._volumes.endings[answer.made]))
        return answer.made

    def is_as_made(self, volume_id: str) -> bool:
        """Return True if no request since its creation may have put the volume into error."""
        known = self._filled.get(volume_id)
        return (known is not None and not known.asked
                and known.endings == self._volumes.endings[volume_id])

    def _marks(self, image_id: str, since: int) -> set[bytes]:
        """Return the possible marks of a volume that is created from an image.

        An image that cannot be used has none.
        """
        return set() if image_id in (_FORGED, _OTHER) else self._glance.marks(image_id, since)

    def _reimage(self) -> None:
        volume_id = self._chance.choice(sorted(self._filled.keys() & self._volumes.kinds.keys())
                                        or [self._volumes.any()])
        image_id = self._chance.choice(sorted(_IMAGES))
        self._all.rewrite(volume_id)
        known = self._filled.get(volume_id)
        asked = image_id, self._glance.versions[image_id]
        if known is not None:
            known.open.append(asked)
            known.asked = True
        answer = self._volumes.action(_REIMAGE, {'image_id': image_id}, volume_id)
        if known is not None and answer.status != clients.UNKNOWN:
            self._note(known)
            known.open.remove(asked)

    def _note(self, known: _Filled) -> None:
        """Add the possible marks of images in requests that may still be executed."""
        for image_id, since in known.open:
            known.fresh |= self._marks(image_id, since)

    def _upload(self) -> None:
        volume_id = self._volumes.any()
        answer = self._volumes.action(_UPLOAD, {
            'image_name': volume_id,
            'disk_format': self._chance.choice(('raw', 'raw', 'raw', 'qcow2'))}, volume_id)
        if answer.status == 202:
            self._uploads[answer.body[_UPLOAD]['image_id']] = volume_id

    def _remove(self) -> None:
        """Delete an uploaded image in Glance, as its owner does."""
        found = sorted(self._glance.images.keys() - _IMAGES.keys())
        if found:
            image_id = self._chance.choice(found)
            self._removed.add(image_id)
            self._forget(image_id)

    def _forget(self, image_id: str) -> None:
        self._glance.images.pop(image_id, None)
        self._glance.data.pop(image_id, None)

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the available volumes with other bytes than those of their image."""
        for volume in facts.volumes:
            known = self._filled.get(volume.id)
            if known is None or volume.deleted or volume.own_status != _Own.AVAILABLE:
                continue
            kept = self._all.deployed.storages.get(volume.host or '')
            if kept is None or known.endings != self._volumes.endings[volume.id]:
                # An administrator may have reset the status to available.
                del self._filled[volume.id]
                continue
            contents = kept.store.contents(f'volume-{volume.id}')
            now = contents.get(glance.MARK)
            self._note(known)
            if now not in known.marks | known.fresh:
                yield f'P4 images_are_whole: volume {volume.id} lacks the bytes of its image'
            elif not known.asked:
                contents[_USED] = b'used'
            elif now not in known.marks and contents.keys() != {glance.MARK}:
                yield f'P4 nothing_is_left: volume {volume.id} has bytes from before its image'

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the uploads that are incomplete, or failed without a message."""
        for volume in facts.volumes:
            if volume.own_status in _AT_WORK:
                yield f'P9 image_work_ends: volume {volume.id} is {volume.own_status} in peace'
        with self._all.judge.looking() as database, database.reader() as connection:
            informed = {row.resource_id for row in connection.execute(models.messages.select())
                        if row.event_id == messages.UPLOAD_FAILED.event_id}
        for image_id, image in sorted(self._glance.images.items()):
            if image['status'] not in (_ACTIVE, 'queued'):
                yield f'P9 image_work_ends: image {image_id} is {image["status"]} in peace'
        for image_id, volume_id in self._uploads.items():
            shown = self._glance.images.get(image_id)
            if shown is None:
                if image_id not in self._removed and volume_id not in informed:
                    yield (f'P2 what_is_accepted_is_done: image {image_id} is gone, and no '
                           f'message explains that')
            elif shown['status'] != _ACTIVE:
                if image_id not in self._glance.kept:
                    yield f'P2 uploads_end: image {image_id} is {shown["status"]} in peace'
            else:
                yield from self._whole(image_id, volume_id, shown['size'])
        self._uploads.clear()
        for image_id in self._glance.images.keys() - _IMAGES.keys():
            self._forget(image_id)

    def _whole(self, image_id: str, volume_id: str, size: int) -> Iterator[str]:
        known = self._filled.get(volume_id)
        if known is not None:
            self._note(known)
        if size <= 0 or size % units.GIB:
            yield f'P4 uploads_are_whole: image {image_id} has {size} bytes'
        elif known is not None and known.endings == self._volumes.endings[volume_id] \
                and self._glance.mark_of(image_id) not in known.marks | known.fresh:
            yield f'P4 uploads_are_whole: image {image_id} lacks the bytes of its volume'

    OPERATIONS = {
        'create from image': (_create, 6),
        'reimage': (_reimage, 3),
        'upload': (_upload, 4),
        'remove image': (_remove, 1),
    }


def _of_image(client, _):
    volumes.made(client, {'size': 1, 'imageRef': WHOLE})


def _of_forged(client, _):
    volumes.made(client, {'size': 1, 'imageRef': _FORGED})


def _filled(client):
    return client.volume(imageRef=WHOLE)


def _reimage(client, volume_id):
    client.act(volume_id, _REIMAGE, {'image_id': SECOND})
    client.settled(volume_id)


def _upload(client, volume_id):
    client.act(volume_id, _UPLOAD, {'image_name': 'of it', 'disk_format': 'raw'})
    client.settled(volume_id)


def _upload_other(client, volume_id):
    """Upload a volume in a format that needs a conversion, so that the upload is discarded."""
    client.act(volume_id, _UPLOAD, {'image_name': 'of it', 'disk_format': 'qcow2'})
    client.settled(volume_id)


_MANAGER = operations.MANAGER

NOUN = operations.Noun(
    'images',
    played=Images,
    operations=(
        operations.Operation('create from image', _of_image),
        operations.Operation('create from forged image', _of_forged),
        operations.Operation('half filled', _of_image, hindered=(
            (_MANAGER, 'images.moving.before_write=raise*1'),)),
        operations.Operation('reimage', _reimage, _filled),
        operations.Operation('upload', _upload, operations.volume),
        operations.Operation('discarded upload', _upload_other, operations.volume),
    ),
    at_work=("SELECT COUNT(*) FROM volumes WHERE own_status IN ('downloading', 'uploading')",),
    passed=('control.images.', 'volume.images.', 'images.', 'db.volume_images.',
            'db.volume.download.', 'db.volume.reimage.', 'db.volume.upload.'),
    seeds=((41, 400), (43, 300), (44, 300)),
    in_memory='images come from a Glance in memory: tests/functional/test_image_faults.py',
)
