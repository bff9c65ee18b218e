"""Waiting for an outcome, with progress on standard error and an end."""
import argparse
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import TextIO

from osc_lib import exceptions

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import clock
from blockattachclient import faults

TICK = 1.0
SECONDS = 300


def add_options(parser: argparse.ArgumentParser) -> None:
    """``--wait`` and ``--timeout``."""
    parser.add_argument('--wait', action='store_true',
                        help='Wait for the outcome and retry temporary failures, printing the '
                             'progress to standard error')
    parser.add_argument('--timeout', metavar='<seconds>', type=arguments.positive,
                        default=SECONDS,
                        help=f'Maximum time to wait in seconds (default: {SECONDS})')


class Waiter:
    """Progress until an outcome is there or the time is over. Without ``--wait`` nothing waits."""

    def __init__(self, given: argparse.Namespace, progress: TextIO) -> None:
        self._waits = given.wait
        self._seconds = given.timeout
        self._began = clock.monotonic()
        self._progress = progress
        self._last = ''

    def say(self, subject: str, state: str) -> None:
        """Print how far something is, where that has changed."""
        line = f'{subject}: {state}'
        if self._waits and line != self._last:
            self._last = line
            elapsed = int(clock.monotonic() - self._began)
            self._progress.write(f'{elapsed:>4} s  {line}\n')
            self._progress.flush()

    def answer(self, subject: str, ask: Callable[[float | None], api.Answer]) -> api.Answer:
        """The answer to a request that may be repeated, once it is none that says to do so.

        :param ask: sends it, and is given how many seconds there are for the answer
        """
        while True:
            answer = ask(max(self._remaining(), TICK) if self._waits else None)
            again = answer.retry_after
            if again is None or not self._waits:
                return answer
            reason = faults.sentence(answer.body) or answer.text or f'HTTP {answer.status}'
            self.say(subject, f'waiting ({reason})')
            if not self._pause(max(again, TICK)):
                return answer

    def until(self, subject: str, look: Callable[[], str | None]) -> None:
        """Wait until a look returns None rather than the state that something is in.

        :raises CommandError: the time is over
        """
        while (state := look()) is not None:
            self.say(subject, state)
            if not self._pause(TICK):
                raise exceptions.CommandError(
                    f'{subject} is still {state} after {self._seconds} s. The service continues '
                    'the operation. Check with "openstack volume attachment tree", or set a '
                    'longer --timeout.')

    def _pause(self, seconds: float) -> bool:
        """Pause; False: the time is over."""
        remaining = self._remaining()
        if remaining <= 0:
            return False
        clock.pause(min(seconds, remaining))
        return True

    def _remaining(self) -> float:
        return self._began + self._seconds - clock.monotonic()


def create(service: api.Api, waiter: Waiter, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Make an attachment, once, however often it is asked for; as it is made.

    :raises CommandError: it is refused, or its outcome stays unknown
    """
    # By this name a repeat finds what the first request has made.
    key = {'Idempotency-Key': str(uuid.uuid4())}
    answer = waiter.answer('attachment', lambda seconds: service.ask(
        'POST', '/attachments', body={'attachment': wanted}, headers=key,
        seconds=seconds)).checked()
    made: dict[str, Any] = answer.body['attachment']
    return made


def delete(service: api.Api, waiter: Waiter, attachment_id: str, force: bool = False) -> None:
    """Delete an attachment.

    :raises CommandError: it is refused, or its outcome stays unknown
    """
    subject = f'attachment {attachment_id}'
    query = {'force': 'true'} if force else {}
    sent = 0

    def ask(seconds: float | None) -> api.Answer:
        nonlocal sent
        sent += 1
        return service.ask('DELETE', api.attachment_path(attachment_id), query=query,
                           seconds=seconds)

    answer = waiter.answer(subject, ask)
    # A request before, whose outcome was unknown, has deleted it.
    if answer.status != 404 or sent == 1:
        answer.checked()
    waiter.say(subject, 'deleted')
