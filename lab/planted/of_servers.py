"""Planted bugs on the compute side: leases of actions, orphaned resources, and write access."""
from lab.planted import bug

Bug = bug.Bug
_TESTS = 'blockattach.tests.functional.servers'
_FENCING = 'blockattach.tests.unit.compute.test_fencing.FencingTest'

BUGS = (
    # Takeover of actions from processes that hang.
    Bug('an_older_lease_is_obeyed', 'compute/agent.py',
        '            if generation < newest:\n',
        '            if generation < _FIRST:\n',
        'a host does not what a process asks for whose act another has taken over', 'P4',
        f'{_FENCING}.test_call_with_older_generation_refused'),
    Bug('leases_are_forgotten', 'compute/agent.py',
        '        self._kept: dict[str, int] = {} if path is None else files.read(path) or {}\n',
        '        self._kept: dict[str, int] = {}\n',
        'an agent that is started anew knows the leases of its servers', 'P4',
        f'{_FENCING}.test_restarted_agent_keeps_generation'),
    Bug('servers_of_a_request_by_no_lease', 'compute/agent.py',
        "        self.fenced(ctxt, guest['server_id'], generation, 'spawn', [guest])\n",
        '        self.spawn(ctxt, guest)\n',
        'servers that are built together are spawned by their leases', 'P4',
        f'{_FENCING}.test_spawn_all_refuses_stale_server_only'),
    Bug('an_attachment_nobody_knows', 'compute/acts/work.py',
        '                    item.tools.attachments.delete(item.caller, attachment.id)\n'
        '                raise errors.ActTakenOver',
        '                    pass\n'
        '                raise errors.ActTakenOver',
        'what a process makes in an act that another has taken over is removed', 'P2',
        f'{_TESTS}.test_late.LateTest'),
    Bug('written_in_an_act_of_others', 'compute/store/store.py',
        'for act, device_id, attachment_id in attachments if act.id in held]\n',
        'for act, device_id, attachment_id in attachments]\n',
        'only the process that is at an act writes down what came of it', 'P2',
        f'{_TESTS}.test_late.LateTest'),
    Bug('two_take_over_an_act', 'compute/store/store.py',
        '                _acts.c.deadline <= db_clock.now()).order_by',
        '                _acts.c.deadline <= db_clock.now(3600)).order_by',
        'an act that a process is at is not taken over', 'P2',
        f'{_TESTS}.test_late.OverlapTest'),
    Bug('left_acts_are_renewed', 'compute/conductor.py',
        '        begun.add_done_callback(lambda _done: self._under_way.difference_update('
        'leases))\n',
        '',
        'an act that a thread had to leave is taken up again', 'P9',
        f'{_TESTS}.test_stuck.GoneDatabaseTest'),

    Bug('a_committed_move_is_undone', 'compute/conductor.py',
        '            if execution.tools.store.is_committed(execution.act):\n',
        '            if False:\n',
        'an act whose commit was written, and its answer lost, is done to its end', 'P4',
        f'{_TESTS}.test_failures.LostAnswerTest'),

    # Orphaned resources.
    Bug('a_lost_answer_is_lost', 'compute/acts/work.py',
        '        unknown = [one for one in found if one not in known]\n',
        '        unknown = [one for one in found if not known]\n',
        'an attachment whose answer was lost is given back', 'P2',
        f'{_TESTS}.test_interruptions.InterruptionTest'),
    Bug('a_sibling_is_lost', 'compute/conductor.py',
        '        built = [execution for execution in executions '
        'if execution.act.server_id not in failed]\n',
        '        built = [] if failed else list(executions)\n',
        'when some of the servers of a request fail, the rest stand', 'P9',
        f'{_TESTS}.test_servers.CreateTest'),
    Bug('the_source_is_not_left', 'compute/acts/moves.py',
        "                   work.Step('release', item.release_next),\n",
        '',
        'after a live migration the attachment of the source is removed', 'P2',
        f'{_TESTS}.test_servers.MovesTest'),
    Bug('a_move_forward_and_back', 'compute/acts/moves.py',
        "        if item.noted('address') is not None and _has_moved(item):\n",
        '        if False:\n',
        'a live migration whose answer was lost, and that has happened, is finished', 'P4',
        f'{_TESTS}.test_interruptions.InterruptionTest.test_live_migration'),
    Bug('deleted_beside_another_act', 'compute/conductor.py',
        '        if lifecycle.VERBS[act.verb].waits and self._tools.store.waits(act):\n',
        '        if False:\n',
        'a server is deleted once what is under way on it has ended', 'P2',
        f'{_TESTS}.test_late.OverlapTest'),

    Bug('a_stray_is_ended_at_each_report', 'compute/reports.py',
        '            if (host, server_id) in self._ending:\n',
        '            if False:\n',
        'a server is ended once at a time, however often it is reported', 'P9',
        f'{_TESTS}.test_strays.StraysTest'),
    Bug('a_report_names_what_is_being_ended', 'compute/agent.py',
        '                    if server_id not in self._ending}\n',
        '                    }\n',
        'no compute API ends a server that its agent is ending', 'P9',
        f'{_TESTS}.test_strays.StraysTest'),
    Bug('an_unused_connection_stays', 'compute/conductor.py',
        '            plan.refused(exc)\n'
        '            connections.release_unused(execution)\n',
        '            plan.refused(exc)\n',
        'an act that was refused leaves no volume attaching', 'P2',
        f'{_TESTS}.test_repairs.RepairedTest'),

    # Write access, and access to data.
    Bug('an_old_agent_lets_write', 'compute/placement.py',
        '    return _number(agent.version) >= _number(interface.MODES_SINCE)\n',
        '    return True\n',
        'a read-only volume comes only to a host whose agent heeds modes', 'P3',
        f'{_TESTS}.test_bad_input.OldAgentTest'),
    Bug('every_server_writes', 'compute/acts/work.py',
        '            self.caller, volume_id or device.volume_id, self.act.server_id, '
        'device.mode.value,\n'
        '            connector, f',
        "            self.caller, volume_id or device.volume_id, self.act.server_id, 'rw',\n"
        '            connector, f',
        'the mode that a user chose is that of the attachment', 'P3',
        f'{_TESTS}.test_servers.CreateTest'),
    Bug('volumes_of_others', 'compute/storage.py',
        '        if not caller.is_admin and found.get(_PROJECT) != caller.project_id:\n',
        '        if False:\n',
        "the account's right to see a volume is not the caller's", 'P7',
        'blockattach.tests.unit.compute.test_storage.VolumesTest'),
    Bug('hosts_in_reasons', 'compute/api/services.py',
        '        text = text.replace(host, _HIDDEN)\n',
        '        pass\n',
        'only who may see hosts reads their names in a reason', 'P7',
        f'{_TESTS}.test_reasons.ReasonsTest'),
)
