"""Planted bugs on the compute side: leases of actions, orphaned resources, and write access."""
from lab.planted import bug

Bug = bug.Bug
_TESTS = 'blockattach.tests.functional.servers'
_FENCING = 'blockattach.tests.unit.compute.test_fencing.FencingTest'

BUGS = (
    # Takeover of actions from processes that hang.
    Bug('superseded_action_lease_accepted', 'compute/agent.py',
        '            if generation < newest:\n',
        '            if generation < _FIRST:\n',
        'an agent rejects calls whose lease on the server has been superseded', 'P4',
        f'{_FENCING}.test_call_with_older_generation_refused'),
    Bug('action_leases_lost_at_restart', 'compute/agent.py',
        '        self._kept: dict[str, int] = {} if path is None else files.read(path) or {}\n',
        '        self._kept: dict[str, int] = {}\n',
        'an agent knows the newest lease of each server after a restart', 'P4',
        f'{_FENCING}.test_restarted_agent_keeps_generation'),
    Bug('servers_spawned_without_lease', 'compute/agent.py',
        "        self.fenced(ctxt, guest['server_id'], generation, 'spawn', [guest])\n",
        '        self.spawn(ctxt, guest)\n',
        'servers of one request are each spawned under a lease of their own', 'P4',
        f'{_FENCING}.test_spawn_all_refuses_stale_server_only'),
    Bug('attachment_of_lost_action_kept', 'compute/acts/work.py',
        '                    item.tools.attachments.delete(item.caller, attachment.id)\n'
        '                raise errors.ActTakenOver',
        '                    pass\n'
        '                raise errors.ActTakenOver',
        'an attachment that was created in an action taken over meanwhile is deleted', 'P2',
        f'{_TESTS}.test_late.LateTest'),
    Bug('attachment_recorded_without_lease', 'compute/store/store.py',
        'for act, device_id, attachment_id in attachments if act.id in held]\n',
        'for act, device_id, attachment_id in attachments]\n',
        'only the process that holds the lease of an action records its attachments', 'P2',
        f'{_TESTS}.test_late.LateTest'),
    Bug('running_action_taken_over', 'compute/store/store.py',
        '                _acts.c.deadline <= db_clock.now()).order_by',
        '                _acts.c.deadline <= db_clock.now(3600)).order_by',
        'an action is taken over only after its deadline', 'P2',
        f'{_TESTS}.test_late.OverlapTest'),
    Bug('lease_of_left_action_renewed', 'compute/conductor.py',
        '        begun.add_done_callback(lambda _done: self._under_way.difference_update('
        'leases))\n',
        '',
        'the lease of an action is not renewed after its thread has left the action', 'P9',
        f'{_TESTS}.test_stuck.GoneDatabaseTest'),

    Bug('committed_action_undone', 'compute/conductor.py',
        '            if execution.tools.store.is_committed(execution.act):\n',
        '            if False:\n',
        'an action whose commit is stored is finished, even if the reply was lost', 'P4',
        f'{_TESTS}.test_failures.LostAnswerTest'),

    # Orphaned resources.
    Bug('attachment_of_lost_response_kept', 'compute/acts/work.py',
        '        unknown = [one for one in found if one not in known]\n',
        '        unknown = [one for one in found if not known]\n',
        'an attachment whose creation got no response is deleted', 'P2',
        f'{_TESTS}.test_interruptions.InterruptionTest'),
    Bug('failed_build_stops_other_builds', 'compute/conductor.py',
        '        built = [execution for execution in executions '
        'if execution.act.server_id not in failed]\n',
        '        built = [] if failed else list(executions)\n',
        'a server that cannot be built does not affect the other servers of the request', 'P9',
        f'{_TESTS}.test_servers.CreateTest'),
    Bug('migration_source_attachment_kept', 'compute/acts/moves.py',
        "                   work.Step('release', item.release_next),\n",
        '',
        'the attachment on the source host is deleted after a live migration', 'P2',
        f'{_TESTS}.test_servers.MovesTest'),
    Bug('completed_live_migration_undone', 'compute/acts/moves.py',
        "        if item.noted('address') is not None and _has_moved(item):\n",
        '        if False:\n',
        'a live migration that has moved the guest is finished, even without a reply', 'P4',
        f'{_TESTS}.test_interruptions.InterruptionTest.test_live_migration'),
    Bug('server_deleted_during_action', 'compute/conductor.py',
        '        if lifecycle.VERBS[act.verb].waits and self._tools.store.waits(act):\n',
        '        if False:\n',
        'a server is deleted only after a running action on the server has ended', 'P2',
        f'{_TESTS}.test_late.OverlapTest'),

    Bug('stray_guest_destroyed_repeatedly', 'compute/reports.py',
        '            if (host, server_id) in self._ending:\n',
        '            if False:\n',
        'a stray guest is destroyed by one call at a time', 'P9',
        f'{_TESTS}.test_strays.StraysTest'),
    Bug('guest_in_deletion_reported', 'compute/agent.py',
        '                    if server_id not in self._ending}\n',
        '                    }\n',
        'an agent does not report a guest that is being destroyed', 'P9',
        f'{_TESTS}.test_strays.StraysTest'),
    Bug('unused_connection_kept_after_refusal', 'compute/conductor.py',
        '            plan.refused(exc)\n'
        '            connections.release_unused(execution)\n',
        '            plan.refused(exc)\n',
        'a refused action releases the connections that its server does not use', 'P2',
        f'{_TESTS}.test_repairs.RepairedTest'),

    # Write access, and access to data.
    Bug('old_agent_trusted_with_read_only', 'compute/placement.py',
        '    return _number(agent.version) >= _number(interface.MODES_SINCE)\n',
        '    return True\n',
        'a read-only volume is attached only on a host whose agent enforces access modes', 'P3',
        f'{_TESTS}.test_bad_input.OldAgentTest'),
    Bug('access_mode_always_read_write', 'compute/acts/work.py',
        '            self.caller, volume_id or device.volume_id, self.act.server_id, '
        'device.mode.value,\n'
        '            connector, f',
        "            self.caller, volume_id or device.volume_id, self.act.server_id, 'rw',\n"
        '            connector, f',
        'an attachment has the access mode that the user has chosen', 'P3',
        f'{_TESTS}.test_servers.CreateTest'),
    Bug('volume_of_other_project_readable', 'compute/storage.py',
        '        if not caller.is_admin and found.get(_PROJECT) != caller.project_id:\n',
        '        if False:\n',
        'a caller without administrator rights reads only volumes of its project', 'P7',
        'blockattach.tests.unit.compute.test_storage.VolumesTest'),
    Bug('host_names_shown_in_reasons', 'compute/api/services.py',
        '        text = text.replace(host, _HIDDEN)\n',
        '        pass\n',
        'host names in a reason are hidden from callers who may not see hosts', 'P7',
        f'{_TESTS}.test_reasons.ReasonsTest'),
)
