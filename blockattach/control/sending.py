"""Messages that nobody answers: one that is lost is brought back by the deadline behind it."""
from collections.abc import Callable
from typing import Any

from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log

LOG = oslo_log.getLogger(__name__)


def send(method: Callable[..., None], *arguments: Any, volume_id: str) -> bool:
    """Send a cast; False if nothing takes it, which is no failure of the request.

    :param volume_id: what it is about, for the log
    """
    try:
        method(*arguments)
    except errors.ServiceUnreachable as exc:
        LOG.warning('Cannot send a message; its work is resumed at its deadline: %s%s', exc,
                    log.fields(volume_id=volume_id))
        return False
    return True
