"""Part of the conformance kit for stores: processes that are killed during a call of a store.

A child process calls a method of the store, the *verb*, and kills itself before a system call that
changes something. The kit then checks the store after a restart, after a repeated call of the verb
and after a deletion.
"""
import os
import signal
import sys
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

from blockattach.conformance import store_base
from blockattach.platform import units
from blockattach.storage.drivers import base

_NAMES = ('copy_file_range', 'fchmod', 'fdatasync', 'flock', 'fork_exec', 'fsync', 'ftruncate',
          'ioctl', 'link', 'mkdir', 'open', 'pwrite', 'remove', 'rename', 'replace', 'rmdir',
          'sendfile', 'symlink', 'truncate', 'unlink', 'write')
# The modules in C that implement `os`, `fcntl` and `subprocess`. A profile function sees their
# calls under these names.
_CHANGES = frozenset((module, name) for module in ('posix', 'fcntl', '_posixsubprocess')
                     for name in _NAMES)
"""Python functions that change files or start programs, by module and name. The child process is
killed before a call of one of these functions."""


class _Scene(NamedTuple):
    """Verb of a store with prepared arguments.

    :ivar act: calls the verb; a repeated call completes an interrupted call
    :ivar undo: deletes the volume or snapshot that the verb creates; None if the verb creates
        neither
    :ivar has_mark: volume that must contain `store_base.MARK` after the verb; None for no check
    :ivar two_names: True if an interrupted verb may leave a volume with two names
    """

    act: Callable[[base.VolumeStore], object]
    undo: Callable[[base.VolumeStore], object] | None = None
    has_mark: base.StoredVolume | None = None
    two_names: bool = False


class KillContract(store_base.StoreBase):
    """Behaviors of a store whose process is killed during a verb."""

    kill_points: int | None = 5
    """Number of points of each verb at which its process is killed; None for all points."""
    goes_on = False
    """True if `check` keeps unfinished data of a killed process, for use by a repeated verb."""

    def stored_names(self) -> frozenset[str]:
        """Return the names of all volumes and snapshots on the backend.

        Unfinished and deleted volumes and snapshots that still occupy space are included.
        """
        self.leaves_out('remains of a killed process', 'stored_names is not implemented')

    def test_create_killed_anywhere_leaves_nothing(self) -> None:
        self._kill_everywhere(self._create)

    def test_clone_killed_anywhere_leaves_nothing(self) -> None:
        self.needs('clone')
        self._kill_everywhere(self._clone)

    def test_snapshot_killed_anywhere_leaves_nothing(self) -> None:
        self.needs('snapshots')
        self._kill_everywhere(self._snapshot)

    def test_clone_of_a_snapshot_killed_anywhere_leaves_nothing(self) -> None:
        self.needs('clone_snapshot')
        self._kill_everywhere(self._clone_snapshot)

    def test_revert_killed_anywhere_leaves_nothing(self) -> None:
        self.needs('revert')
        self._kill_everywhere(self._revert)

    def test_extend_killed_anywhere_leaves_nothing(self) -> None:
        self._kill_everywhere(self._extend)

    def test_delete_killed_anywhere_leaves_nothing(self) -> None:
        self._kill_everywhere(self._delete)

    def test_manage_killed_anywhere_leaves_nothing(self) -> None:
        self.needs('manage')
        self._kill_everywhere(self._manage)

    # ---- The verbs ----

    def _create(self) -> _Scene:
        volume = self.volume()
        return _Scene(lambda store: store.create(volume), lambda store: store.delete(volume))

    def _clone(self) -> _Scene:
        source, volume = self._with_data(), self.volume(2)
        return _Scene(lambda store: _verb(store, 'clone')(source, volume),
                      lambda store: store.delete(volume), volume)

    def _snapshot(self) -> _Scene:
        snapshot = self.snapshot(self._with_data())
        return _Scene(lambda store: _verb(store, 'create_snapshot')(snapshot),
                      lambda store: _verb(store, 'delete_snapshot')(snapshot))

    def _clone_snapshot(self) -> _Scene:
        snapshot, volume = self._of_data(), self.volume(2)
        return _Scene(lambda store: _verb(store, 'clone_snapshot')(snapshot, volume),
                      lambda store: store.delete(volume), volume)

    def _revert(self) -> _Scene:
        snapshot = self._of_data()
        return _Scene(lambda store: _verb(store, 'revert')(snapshot), None, snapshot.volume)

    def _extend(self) -> _Scene:
        volume = self._with_data()
        return _Scene(lambda store: store.extend(volume, 2), None, volume)

    def _delete(self) -> _Scene:
        volume = self._with_data()
        return _Scene(lambda store: store.delete(volume))

    def _manage(self) -> _Scene:
        former, volume = self._with_data(), self.volume()
        return _Scene(lambda store: _verb(store, 'manage')(former.name, volume),
                      None, volume, two_names=True)

    def _with_data(self) -> base.StoredVolume:
        """Create a volume with data in two places."""
        volume = self._created()
        if self.has_bytes:
            self._write(volume, 0)
            self._write(volume, 64 * units.MIB)
        return volume

    def _of_data(self) -> base.StoredSnapshot:
        """Create a snapshot of a volume with data."""
        snapshot = self.snapshot(self._with_data())
        _verb(self.store, 'create_snapshot')(snapshot)
        return snapshot

    # ---- Kills ----

    def _kill_everywhere(self, build: Callable[[], _Scene]) -> None:
        # Both methods skip the test if the test class does not implement them.
        self.stored_names()
        self.remake()
        scene = build()
        begun = len(self.stored_names())
        points = self._points(scene)
        created = len(self.stored_names()) - begun
        for point in points:
            with self.subTest(point=point, then='repeat'):
                self._kill_and_repeat(self._anew(build), point, created)
            if scene.undo is not None:
                with self.subTest(point=point, then='undo'):
                    self._kill_and_undo(self._anew(build), point)

    def _anew(self, build: Callable[[], _Scene]) -> _Scene:
        """Prepare a verb on a fresh store. One store may not have space for all tests."""
        self.store = self.make()
        self.store.check()
        return build()

    def _kill_and_repeat(self, scene: _Scene, point: int, created: int) -> None:
        begun = len(self.stored_names())
        self._kill(scene, point)
        # `check` removes leftovers when a service starts.
        self.store = self.remake()
        self.store.check()
        if not (self.goes_on or scene.two_names):
            self.assertIn(len(self.stored_names()), (begun, begun + created), self.stored_names())
        self._kill(scene, point)
        # The repeat runs in another process of the cluster that was not restarted, so no `check`
        # has removed the leftovers.
        scene.act(self.store)
        self.assertEqual(begun + created, len(self.stored_names()), self.stored_names())
        if scene.has_mark is not None and self.has_bytes:
            self.assertEqual(store_base.MARK, self._read(scene.has_mark, 0))
            self.assertEqual(store_base.MARK, self._read(scene.has_mark, 64 * units.MIB))

    def _kill_and_undo(self, scene: _Scene, point: int) -> None:
        """Check that a deletion removes the unfinished data of a verb that is not repeated."""
        assert scene.undo is not None
        begun = len(self.stored_names())
        self._kill(scene, point)
        scene.undo(self.store)
        self.assertEqual(begun, len(self.stored_names()), self.stored_names())

    def _points(self, scene: _Scene) -> list[int]:
        """Run a verb once, and return the numbers of the calls before which to kill the process.

        Only calls of functions in `_CHANGES` are counted, from 1 on.
        """
        passed = 0

        def count() -> None:
            nonlocal passed
            passed += 1

        _watch(count)
        try:
            scene.act(self.store)
        finally:
            sys.setprofile(None)
        if not passed:
            self.leaves_out('a kill during the operation',
                            'the operation makes no call that could be interrupted')
        if self.kill_points is None or passed <= self.kill_points:
            return list(range(1, passed + 1))
        # A copy makes too many calls to be killed before each of them.
        apart = passed / (self.kill_points + 1)
        return sorted({round(number * apart) for number in range(1, self.kill_points + 1)})

    def _kill(self, scene: _Scene, point: int) -> None:
        """Run a verb in a child process, and kill the child before the call with number ``point``.

        The child ends after the verb if the verb makes fewer calls.
        """
        # A fork, because the child needs the store and the scene, which cannot be pickled.
        child = os.fork()
        if not child:
            _die(point, scene, self.store)
        os.waitpid(child, 0)


def _die(point: int, scene: _Scene, store: base.VolumeStore) -> None:
    points = iter(range(point))

    def end() -> None:
        if next(points) + 1 == point:
            # SIGKILL runs no handler and no `finally` clause, like a crash.
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        _watch(end)
        scene.act(store)
    finally:
        # Skip the tests, clean-ups and buffers that were inherited from the parent process.
        os._exit(0)


def _watch(passed: Callable[[], None]) -> None:
    """Call ``passed`` before each call of a function in `_CHANGES` by this thread."""
    def look(_frame: object, event: str, called: Any) -> None:
        if event == 'c_call' and (called.__module__, called.__name__) in _CHANGES:
            passed()

    sys.setprofile(look)


def _verb(store: base.VolumeStore, name: str) -> Callable[..., object]:
    """Return a verb of an optional capability of a store, by the name of its method."""
    found: Callable[..., object] = getattr(store, name)
    return found
