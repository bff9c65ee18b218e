"""Client of a cloud of real processes."""
import threading
from concurrent import futures

from blockattach.platform import clock
from blockattach.tests.functional import base
from lab.faults import cloud as clouds
from lab.simulation import nouns
from lab.simulation import recording


def of(cloud):
    """Return a client of the first API of the cloud."""
    return recording.Client(cloud, base.Api(cloud.endpoints[0], clouds.SECONDS), clock.Clock(),
                            clouds.wait_for, nouns.NOUNS)


def in_thread(act):
    """Call ``act`` in a new thread, and return the future of its result."""
    found = futures.Future()

    def run():
        try:
            found.set_result(act())
        except BaseException as exc:
            found.set_exception(exc)
    threading.Thread(target=run, name='client', daemon=True).start()
    return found
