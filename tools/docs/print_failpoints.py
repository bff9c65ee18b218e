#!/usr/bin/env python3
"""Print every failpoint that there is, and how one is armed."""
import sys

import rst
from blockattach.platform import failpoints
from blockattach.tests.fixtures import failpoint_names

_WHAT = {
    'raise': 'raises an error that nobody foresees',
    'kill': 'ends the process, as ``kill -9`` does',
    'delay': 'waits; the seconds follow, as in ``delay:2.5``',
    'drop': 'on the bus: the message (``before_send``) or the answer (``after_answer``) is lost',
    'duplicate': 'on the bus, ``before_send``: the message comes twice',
}
_GROUPS = {
    failpoint_names.IN_CODE: 'Written in the code, where something has just happened or is about '
                             'to.',
    failpoint_names.IN_DATABASE: '``before`` its first transaction, and ``after`` the last one is '
                                 'committed. Besides, ``db.engine.before_commit`` and '
                                 '``db.engine.after_commit`` are passed by every transaction that '
                                 'writes.',
    failpoint_names.ON_BUS: 'At the client ``before_send`` and ``after_answer``, at the server '
                            '``before_work`` and ``before_reply``.',
    failpoint_names.ON_BACKEND: '``before`` the driver is asked, and ``after`` it has answered.',
    failpoint_names.ON_WORK: '``before`` a claimed act begins, and ``after`` its end is '
                             'stored.',
}


def document() -> str:
    """The page."""
    names = failpoint_names.everywhere()
    parts = [rst.NOTICE, rst.heading('Failpoints'), f"""
Named points at which a process can be made to fail, so that a test can show what happens then. All
are off, and cost a look into an empty dictionary. There are {len(names)}.

A test arms one with ``blockattach.platform.failpoints.arm``. For a whole process there is the
option ``[failpoints] armed``, or the environment variable ``OS_FAILPOINTS__ARMED``::

   OS_FAILPOINTS__ARMED='volume.attachments.after_grant=kill' blockattach-volume
   OS_FAILPOINTS__ARMED='rpc.volume.connect.after_answer=drop*2' blockattach-api
""",
             rst.table(('action', 'what it does'),
                       [[rst.literal(name), _WHAT[name]] for name in failpoints.ACTIONS],
                       (15, 85))]
    for group, said in _GROUPS.items():
        parts.append(rst.heading(group.capitalize(), '-'))
        parts.append(f'\n{said}\n\n')
        parts += [f'* ``{name}``\n' for name, found in names.items() if found == group]
    return ''.join(parts)


if __name__ == '__main__':
    sys.stdout.write(document())
