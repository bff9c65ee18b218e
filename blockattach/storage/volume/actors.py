"""THE list of what does work on a backend, for those that only read what is declared."""
from blockattach.storage.volume import extend_work
from blockattach.storage.volume import image_work
from blockattach.storage.volume import manage_snapshot_work
from blockattach.storage.volume import manage_work
from blockattach.storage.volume import move_work
from blockattach.storage.volume import revert_work
from blockattach.storage.volume import server_notices
from blockattach.storage.volume import snapshot_work
from blockattach.storage.volume import volume_work

ACTORS = (volume_work.VolumeWork, extend_work.ExtendWork, server_notices.ServerNotices,
          snapshot_work.SnapshotWork, revert_work.RevertWork, image_work.ImageWork,
          move_work.MoveWork, manage_work.ManageWork, manage_snapshot_work.ManageSnapshotWork)
