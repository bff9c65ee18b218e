"""List of all classes whose methods handle work on a backend (`verbs.work`)."""
from blockattach.storage.volume import extend_work
from blockattach.storage.volume import image_work
from blockattach.storage.volume import manage_work
from blockattach.storage.volume import move_work
from blockattach.storage.volume import snapshot_work
from blockattach.storage.volume import volume_work
from blockattach.storage.volume import work_context

HANDLERS: tuple[type, ...] = (
    volume_work.VolumeWork, extend_work.ExtendWork, snapshot_work.SnapshotWork,
    image_work.ImageWork, move_work.MoveWork, manage_work.ManageWork)


def build(context: work_context.WorkContext) -> list[object]:
    """Create an instance of each class of `HANDLERS` for a backend."""
    return [handler(context) for handler in HANDLERS]
