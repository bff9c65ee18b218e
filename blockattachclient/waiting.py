"""Waiting for the outcome of requests, with a timeout and with progress on standard error."""
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
    """Add the options ``--wait`` and ``--timeout``."""
    parser.add_argument('--wait', action='store_true',
                        help='Wait for the outcome and retry temporary failures, printing the '
                             'progress to standard error')
    parser.add_argument('--timeout', metavar='<seconds>', type=arguments.positive,
                        default=SECONDS,
                        help=f'Maximum time to wait in seconds (default: {SECONDS})')


class Waiter:
    """Repeated requests and progress output of a command, until the timeout of ``--timeout``.

    Without ``--wait``, requests are not repeated and no progress is printed.
    """

    def __init__(self, given: argparse.Namespace, progress: TextIO) -> None:
        self._waits = given.wait
        self._seconds = given.timeout
        self._began = clock.monotonic()
        self._progress = progress
        self._last = ''

    def say(self, subject: str, state: str) -> None:
        """Print the state of a subject, unless it was printed last."""
        line = f'{subject}: {state}'
        if self._waits and line != self._last:
            self._last = line
            elapsed = int(clock.monotonic() - self._began)
            self._progress.write(f'{elapsed:>4} s  {line}\n')
            self._progress.flush()

    def answer(self, subject: str, ask: Callable[[float | None], api.Answer]) -> api.Answer:
        """Send a request, repeat it as long as its failure is temporary, and return the answer.

        After the timeout, the last answer is returned.

        :param subject: subject of the progress output
        :param ask: function that takes the timeout of the response in seconds, or None for no
            timeout, and sends the request
        """
        while True:
            # A request that starts shortly before the timeout still has time for a response.
            answer = ask(max(self._remaining(), TICK) if self._waits else None)
            again = answer.retry_after
            if again is None or not self._waits:
                return answer
            reason = faults.sentence(answer.body) or answer.text or f'HTTP {answer.status}'
            self.say(subject, f'waiting ({reason})')
            if not self._pause(max(again, TICK)):
                return answer

    def until(self, subject: str, look: Callable[[], str | None]) -> None:
        """Wait until an operation has ended, and print its states meanwhile.

        :param look: function that returns the state of the operation, or None if it has ended
        :raises CommandError: the timeout has expired
        """
        while (state := look()) is not None:
            self.say(subject, state)
            if not self._pause(TICK):
                raise exceptions.CommandError(
                    f'{subject} is still {state} after {self._seconds} s. The service continues '
                    'the operation. Check with "openstack volume attachment tree", or set a '
                    'longer --timeout.')

    def _pause(self, seconds: float) -> bool:
        """Wait for a number of seconds, and return True. Return False if the timeout has expired.
        """
        remaining = self._remaining()
        if remaining <= 0:
            return False
        clock.pause(min(seconds, remaining))
        return True

    def _remaining(self) -> float:
        return self._began + self._seconds - clock.monotonic()


def create(service: api.Api, waiter: Waiter, requested: Mapping[str, Any]) -> dict[str, Any]:
    """Create and return an attachment. A repeated request creates no second attachment.

    :raises CommandError: the request is rejected, or its outcome remains unknown
    """
    # With this key, a repeat finds the attachment that the first request created.
    key = {'Idempotency-Key': str(uuid.uuid4())}
    answer = waiter.answer('attachment', lambda seconds: service.ask(
        'POST', '/attachments', body={'attachment': requested}, headers=key,
        seconds=seconds)).checked()
    made: dict[str, Any] = answer.body['attachment']
    return made


def delete(service: api.Api, waiter: Waiter, attachment_id: str, force: bool = False) -> None:
    """Delete an attachment.

    :raises CommandError: the request is rejected, or its outcome remains unknown
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
    # An earlier request, whose outcome was unknown, has deleted the attachment.
    if answer.status != 404 or sent == 1:
        answer.checked()
    waiter.say(subject, 'deleted')
