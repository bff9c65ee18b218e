#!/usr/bin/env python3
"""Print the page of failpoints."""
import sys

import rst
from blockattach.platform import failpoints
from blockattach.tests.fixtures import failpoint_names

_WHAT = {
    'raise': 'raises an unexpected error',
    'kill': 'kills the process like ``kill -9``',
    'delay': 'waits for a number of seconds, such as ``delay:2.5``',
    'drop': 'loses the message (``before_send``) or the reply (``after_answer``) on the bus',
    'duplicate': 'delivers the message twice on the bus (``before_send``)',
}
_GROUPS = {
    failpoint_names.IN_CODE: 'Set in the code before or after a step.',
    failpoint_names.IN_DATABASE: '``before`` the first transaction of the function, and ``after`` '
                                 'the commit of its last transaction. In addition, each '
                                 'transaction that writes passes ``db.engine.before_commit`` and '
                                 '``db.engine.after_commit``.',
    failpoint_names.ON_BUS: '``before_send`` and ``after_answer`` in the client, ``before_work`` '
                            'and ``before_reply`` in the server.',
    failpoint_names.ON_BACKEND: '``before`` and ``after`` the call of the driver.',
    failpoint_names.ON_WORK: '``before`` claimed work starts, and ``after`` its result is stored.',
}


def document() -> str:
    """Return the page."""
    names = failpoint_names.everywhere()
    parts = [rst.NOTICE, rst.heading('Failpoints'), f"""
Failpoints are named points at which tests make a process fail. There are {len(names)} failpoints.
All are disarmed by default, and a disarmed failpoint costs one lookup in an empty dictionary.

A test arms a failpoint with ``blockattach.platform.failpoints.arm``. To arm a failpoint of a
process, set the option ``[failpoints] armed`` or the environment variable
``OS_FAILPOINTS__ARMED``::

   OS_FAILPOINTS__ARMED='volume.attachments.after_grant=kill' blockattach-volume
   OS_FAILPOINTS__ARMED='rpc.volume.connect.after_answer=drop*2' blockattach-api
""",
             rst.table(('action', 'description'),
                       [[rst.literal(name), _WHAT[name]] for name in failpoints.ACTIONS],
                       (15, 85))]
    for group, said in _GROUPS.items():
        parts.append(rst.heading(group.capitalize(), '-'))
        parts.append(f'\n{said}\n\n')
        parts += [f'* ``{name}``\n' for name, found in names.items() if found == group]
    return ''.join(parts)


if __name__ == '__main__':
    sys.stdout.write(document())
