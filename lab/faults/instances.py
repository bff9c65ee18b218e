"""Failpoints of a forked process, which record where it is and can make it fail while it runs.

At every failpoint, the process writes the place to a file and looks up in a page of shared memory
whether it is to fail there.

A place is the name of a failpoint. At a commit, the name of the database function precedes it:
``db.volumes.claim/db.engine.before_commit``.
"""
import functools
import itertools
import mmap
import os
import pathlib
import signal
import threading

from blockattach.platform import errors
from blockattach.platform import failpoints

_PAGE = 4096
_OVER = object()
_COMMITS = ('db.engine.before_commit', 'db.engine.after_commit')


def _refuse(name, _seconds):
    """Raise the error of a backend that has refused an operation."""
    raise errors.BackendRefused(reason=f'refused at {name}')


def _stop(_name, _seconds):
    """Stop all threads of the process until SIGCONT.

    The signal goes to this thread, which receives it on return from the call. A signal to the
    process could be received later by another thread, while this thread goes on past the place.
    """
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


ACTIONS = {**failpoints.ACTIONS, 'refuse': _refuse, 'stop': _stop}


class Switch:
    """Faults of one process at places, set from outside and kept when the process restarts."""

    def __init__(self, folder, name):
        """
        :param folder: directory that the setting and the failing process share
        """
        self.path = pathlib.Path(folder, f'{name}.armed')
        self.places = pathlib.Path(folder, f'{name}.places')
        for path, size in ((self.path, _PAGE), (self.places, 0)):
            if not path.exists():
                path.write_bytes(bytes(size))
        with self.path.open('r+b') as file:
            self._page = mmap.mmap(file.fileno(), _PAGE)

    def set(self, *texts):
        """Replace the faults by texts PLACE=ACTION, as in `blockattach.platform.failpoints`."""
        text = '\n'.join(texts).encode()
        self._page[:] = text + bytes(_PAGE - len(text))

    def get(self):
        """Return the faults as bytes, which are cheap to compare."""
        return self._page[:]

    def passed(self):
        """Return the current size of the file of places, as an argument of `since`."""
        return self.places.stat().st_size

    def since(self, begin):
        """Return the places passed since the given size, each once, in order."""
        with self.places.open('rb') as file:
            file.seek(begin)
            return list(dict.fromkeys(file.read().decode().split()))


class _Heeding:
    """Callback of all failpoints in the failing process."""

    def __init__(self, switch):
        self._switch = switch
        self._file = os.open(switch.places, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._seen = b''
        self._armed = {}
        self._here = threading.local()

    def __call__(self, name):
        place = self._place(name)
        os.write(self._file, f'{place}\n'.encode())
        page = self._switch.get()
        if page != self._seen:
            self._armed = dict(map(_read, page.rstrip(b'\0').decode().splitlines()))
            self._seen = page
        action = self._armed.get(place)
        return None if action is None else action()

    def _place(self, name):
        if name in _COMMITS:
            verb = getattr(self._here, 'verb', None)
            return f'{verb}/{name}' if verb else name
        if name.startswith('db.'):
            verb, _, moment = name.rpartition('.')
            self._here.verb = verb if moment == 'before' else None
        return name


def _read(text):
    place, _, action_text = text.partition('=')
    action_text, _, times = action_text.partition('*')
    kind, _, value = action_text.partition(':')
    action = functools.partial(ACTIONS[kind], place, float(value or 0))
    left = itertools.repeat(None) if not times else iter(range(int(times)))
    return place, lambda: next(left, _OVER) is not _OVER and action() or None


def heed(folder, name, prepare=None):
    """Arm all failpoints of this process with the `Switch` of the given name.

    It is called in the process before its command runs.

    :param prepare: called first
    """
    # No server here uses TLS, so connections need not load the trusted certificates.
    os.environ.update(SSL_CERT_FILE=os.devnull, SSL_CERT_DIR=os.devnull)
    if prepare is not None:
        prepare()
    failpoints.arm_every(_Heeding(Switch(folder, name)))
