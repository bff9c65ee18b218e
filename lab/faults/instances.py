"""What makes a forked process report where it is, and makes it fail there while it runs.

At every failpoint it writes down the place, and looks into a page of shared memory whether
something is to happen there.

A place is the name of a failpoint. A commit of the database has the name of the verb before it:
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
    """Besides the service's own actions: a backend that says that nothing has happened."""
    raise errors.BackendRefused(reason=f'refused at {name}')


def _stop(_name, _seconds):
    """All threads stand still until somebody lets them go on.

    The signal goes to this thread, as it leaves the call: sent to the process, the signal is taken
    by another one in its own time, and this one goes on past the place meanwhile.
    """
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


ACTIONS = {**failpoints.ACTIONS, 'refuse': _refuse, 'stop': _stop}


class Switch:
    """What one process shall do where, set from outside; it holds over its instances."""

    def __init__(self, folder, name):
        """
        :param folder: a path; the same for the one that sets and the one that heeds it
        """
        self.path = pathlib.Path(folder, f'{name}.armed')
        self.places = pathlib.Path(folder, f'{name}.places')
        for path, size in ((self.path, _PAGE), (self.places, 0)):
            if not path.exists():
                path.write_bytes(bytes(size))
        with self.path.open('r+b') as file:
            self._page = mmap.mmap(file.fileno(), _PAGE)

    def set(self, *texts):
        """Each is PLACE=ACTION as `blockattach.platform.failpoints` has it; none: nothing
        happens.
        """
        text = '\n'.join(texts).encode()
        self._page[:] = text + bytes(_PAGE - len(text))

    def get(self):
        """What is set, as it is written; compared before it is read."""
        return self._page[:]

    def passed(self):
        """How far the process has written by now, for `since`."""
        return self.places.stat().st_size

    def since(self, begin):
        """The places that were passed since then, in this order, each once."""
        with self.places.open('rb') as file:
            file.seek(begin)
            return list(dict.fromkeys(file.read().decode().split()))


class _Heeding:
    """In the process: called at every failpoint."""

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
    """Called in the process before its command: it heeds the `Switch` of this name from now on.

    :param prepare: called before
    """
    # No server here speaks TLS: no connection shall read what the system trusts.
    os.environ.update(SSL_CERT_FILE=os.devnull, SSL_CERT_DIR=os.devnull)
    if prepare is not None:
        prepare()
    failpoints.arm_every(_Heeding(Switch(folder, name)))
