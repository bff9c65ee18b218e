"""An answer as a whole has a deadline: a time-out of `requests` is for each read alone, and a peer
that sends a byte now and then never meets it.
"""
from collections.abc import Callable
from concurrent import futures
from typing import Any
from typing import TypeVar

from keystoneauth1 import exceptions

from blockattach.telemetry import threads

Answer = TypeVar('Answer')


def within(seconds: float, act: Callable[..., Answer], *arguments: Any) -> Answer:
    """What the act returns, or raises, if it ends in time.

    Its thread is a daemon: one that is not waited for any more does not keep the process either.

    :raises ConnectTimeout: it has not ended
    """
    answer: futures.Future[Answer] = futures.Future()

    def run() -> None:
        try:
            answer.set_result(act(*arguments))
        except BaseException as error:
            answer.set_exception(error)

    threads.Threads().begin('nova', run).start()
    try:
        return answer.result(seconds)
    except TimeoutError as error:
        raise exceptions.ConnectTimeout(f'no whole answer within {seconds:g} s') from error
