"""Planted bugs: each breaks one guard of the service, and the gate must notice.

A bug is a piece of text in a copy of the package, replaced by another one. `planting` plants
them, one at a time, and plays the fixed seeds of the simulation; where a bug shows only in what a
client reads, or takes more to meet than they have, the named test of the gate catches it.
"""
from typing import NamedTuple


class Bug(NamedTuple):
    """One row of the table.

    ``old`` stands in the file exactly once, and ``new`` in its place. ``guard`` is what is broken,
    ``promise`` what that guard keeps. ``test``: what catches it; empty: a fixed seed.
    """

    name: str
    path: str
    old: str
    new: str
    guard: str
    promise: str
    test: str = ''


BUGS = (
    # Which servers may use a volume.
    Bug('another_server_joins_a_plain_volume', 'domain/multiattach.py',
        '    if len(holders) > 1 or instance_uuid is None or first.instance_uuid != '
        'instance_uuid:\n',
        '    if len(holders) > 1:\n',
        'a plain volume is held for one server', 'P3'),
    Bug('a_plain_volume_has_no_places', 'domain/multiattach.py',
        '        return Admission(HOLDER_SLOT, mode_of(volume, another_writes, mode))\n',
        '        return Admission(None, mode_of(volume, another_writes, mode))\n',
        'the place by which the database refuses a second holder', 'P3'),
    Bug('several_writers', 'domain/multiattach.py',
        '    if not another_writes:\n',
        '    if not another_writes or asked is _RW:\n',
        'a type with one writer has one', 'P3'),
    Bug('admitted_by_what_was_so', 'db/attachments/attachments.py',
        ' + reads_others * _MOVES\n',
        '\n',
        'an admission counts only if nobody was faster', 'P3',
        'blockattach.tests.db.test_attachments.OvertakenTest'),
    Bug('words_by_what_was_so', 'db/attachments/attachments.py',
        "_SAME_OR_NULL = ('lowest_rank', 'readonly')\n",
        "_SAME_OR_NULL = ('readonly',)\n",
        "a volume's words are written only over those that they follow from", 'P6',
        'blockattach.tests.db.test_attachments.OvertakenTest'),
    Bug('attached_while_it_is_removed', 'db/attachments/attachments.py',
        "('id', 'own_status', 'detach_announced')",
        "('id', 'detach_announced')",
        'a volume that is being removed takes nobody in', 'P2',
        'blockattach.tests.db.test_attachments.OvertakenTest'),
    Bug('removed_while_it_is_attached', 'db/volumes/volumes.py',
        '        if not status_allows or row.lowest_rank is not None:\n',
        '        if not status_allows:\n',
        'a volume with attachments is not removed', 'P2'),
    Bug('quota_counts_without_a_lock', 'db/quotas.py',
        '    limit = _limit(database, lock(connection, project_id))\n',
        '    limit = _limit(database, hard_limit)\n',
        'near its limit a project is counted by one transaction at a time', 'P6',
        'blockattach.tests.db.test_quotas'),

    # What users say of a volume.
    Bug('metadata_is_read_without_a_lock', 'db/volumes/volume_settings.py',
        '    row = volume_rows.lock(connection, volume_id)\n'
        '    if row.own_status in (_Own',
        '    row = volume_queries.read(connection, volume_id)\n'
        '    if row.own_status in (_Own',
        'of two that add metadata neither takes away what the other has added', 'P6',
        'blockattach.tests.db.test_volume_settings'),
    Bug('added_metadata_replaces_all', 'api/metadata.py',
        '        self._change(services, call, lambda now: {**now, **item})\n',
        '        self._change(services, call, lambda now: {**item})\n',
        'an item that is set leaves the others as they are', 'P6'),
    Bug('metadata_of_another_volume', 'db/volumes/volume_settings.py',
        '            table.c.volume_id == volume_id, table.c.key.in_(old)))\n',
        '            table.c.key.in_(old)))\n',
        'what is removed of one volume stays of the others', 'P6'),

    # Which request was faster.
    Bug('a_row_is_written_over', 'db/attachments/attachments.py',
        "_SAME_ROW = ('id', 'generation')\n",
        "_SAME_ROW = ('id',)\n",
        'a row is changed only if it is as it was read', 'P6'),
    Bug('an_old_outcome_counts', 'volume/converge.py',
        'facts,\n'
        '                                 row.generation,\n',
        'facts,\n'
        '                                 None,\n',
        'an outcome is recorded only of the try that it is of', 'P4',
        'blockattach.tests.functional.test_attachment_races.MeetingTest.'
        'test_deleted_while_it_connects'),
    Bug('an_old_volume_message_counts', 'db/volumes/volumes.py',
        '    if row.generation != generation or row.own_status != own_status:\n',
        '    if row.own_status != own_status:\n',
        'a process that has lost a volume changes nothing of it', 'P6',
        'blockattach.tests.db.test_volumes.DeleteTest'),
    Bug('an_overtaken_owner_ends_work', 'db/work.py',
        '    if not _end(connection, claim) and claim.owner is not None:\n'
        '        raise _stale(claim)\n',
        '    _END.change(connection, noun=claim.noun, resource_id=claim.resource_id)\n',
        'a process that has lost its work records no end of it', 'P6',
        'blockattach.tests.db.test_work'),
    Bug('an_old_message_claims_work', 'db/work.py',
        "    sa.or_(_work.c.generation < prepared.value('generation'), sa.and_(\n",
        "    sa.or_(_work.c.generation != prepared.value('generation'), sa.and_(\n",
        'work is claimed by the message of its last generation only', 'P6',
        'blockattach.tests.db.test_work'),
    Bug('a_lost_commit_is_repeated', 'db/engine/engine.py',
        '        if not is_stored:\n',
        '        if is_stored:\n',
        'a change whose commit was lost is looked for before it is repeated', 'P2',
        'blockattach.tests.db.test_lost_commits.NamedRequestTestOnMysql'),
    Bug('thrown_out_for_good', 'db/engine/engine.py',
        '    return isinstance(error, oslo_db_exception.DBDeadlock) or (\n',
        '    return (\n',
        'what the database throws out is done again', 'P9'),

    # Once and not twice.
    Bug('the_name_of_a_request_is_ignored', 'control/attachments.py',
        '            if request is None:\n',
        '            if request is None or request.scope:\n',
        'a request that comes again makes nothing twice', 'P2'),
    Bug('a_failed_request_is_shown_again', 'control/repeats.py',
        '        if _has_failed(row):\n',
        '        if row is None:\n',
        'a repeat is not answered with what is on its way out', 'P2',
        'blockattach.tests.api.test_idempotency'),
    Bug('nothing_is_withdrawn', 'control/attachments.py',
        '                now = self.backend.roll_back(caller, made, exc)\n',
        '                now = None\n',
        'what its maker never learns of is taken back', 'P2',
        'blockattach.tests.functional.test_attachment_faults.CreateTest'),
    Bug('no_undo_after_a_failure', 'control/backend_calls.py',
        '            self._undo(caller, row, exc)\n'
        '            raise self.client_error(sentence, exc) from exc\n',
        '            raise self.client_error(sentence, exc) from exc\n',
        'an intent is taken back where nobody was asked', 'P9',
        'blockattach.tests.functional.test_attachment_faults.CreateTest'),
    Bug('a_refusal_is_kept', 'volume/converge.py',
        '    return attachment_lifecycle.refusal(row.state, row.previous_state,\n'
        '                                        intent.awaited or row.legacy_reservation)\n',
        '    return _Event.FAILED\n',
        'what was refused is as it was before', 'P9'),
    Bug('the_host_before_is_forgotten', 'db/attachments/attachment_values.py',
        '            values |= _restored(old)\n',
        '            pass\n',
        'a refused connector leaves the one before it', 'P4'),
    Bug('born_by_a_refusal', 'domain/attachment_lifecycle.py',
        '    return came_from if came_from is not None else State.GONE\n',
        '    return came_from if came_from is not None else State.RESERVED\n',
        'what was refused at its birth is gone', 'P2',
        'blockattach.tests.unit.domain.test_attachment_lifecycle'),

    # Intent, act, outcome.
    Bug('revoked_before_a_look', 'volume/converge.py',
        '            state = self._desired(lease)\n',
        '            self._target.revoke(lease.volume_id, lease.initiator)\n'
        '            state = self._desired(lease)\n',
        'a host that stays is never revoked, not for a moment', 'P4'),
    Bug('revoked_although_it_stays', 'db/attachments/grants.py',
        '               if row.state in attachment_lifecycle.GRANTED or row.id == also]\n',
        '               if row.state in attachment_lifecycle.ATTACHING or row.id == also]\n',
        'a host is revoked when its last attachment leaves', 'P4'),
    Bug('said_before_it_is_so', 'volume/converge.py',
        '        if _stays(intent, row) and not self._once_more(lease, row.id):\n',
        '        if lease.released:\n',
        'a host is granted again before it is said to be attached again', 'P4',
        'blockattach.tests.functional.test_attachment_faults.SharedGrantTest'),
    Bug('said_though_it_is_not_so', 'volume/converge.py',
        '            raise errors.BackendUncertain(\n'
        "                reason=f'{refusal}; and its host cannot be granted again') from "
        'refusal\n',
        '            pass\n',
        'a host that cannot be granted again is not said to be attached', 'P4',
        'blockattach.tests.functional.test_attachment_faults.SharedGrantTest'),
    Bug('a_late_comparison', 'volume/converge.py',
        '            if lease.is_late():\n',
        '            if lease.is_late() and intent is not None:\n',
        'a comparison whose lease was lost repairs what it hit', 'P4',
        'blockattach.tests.simulation.test_cluster.TurnsTest'),
    Bug('the_replaced_host_stays', 'volume/manager.py',
        '        if previous is not None and previous != initiator:\n',
        '        if previous is not None and previous == initiator:\n',
        'a host that was replaced is revoked', 'P7'),
    Bug('credentials_stay', 'db/attachments/attachments.py',
        '    if unneeded:\n',
        '    if not unneeded:\n',
        'a credential goes with the last attachment that needs it', 'P8'),
    Bug('credentials_of_others_go', 'db/attachments/grants.py',
        '    *(~sa.exists().where(_rows.c.volume_id == _VOLUME_ID, models.live(_rows),\n'
        '                         name == _grants.c.initiator)\n'
        '      for name in (_rows.c.initiator, _rows.c.previous_initiator))))\n',
        '))\n',
        'a credential stays while an attachment needs it', 'P8'),
    Bug('narrowest_mode', 'domain/connection.py',
        '    return AccessMode.RW if AccessMode.RW in set(modes) else AccessMode.RO\n',
        '    return AccessMode.RO if AccessMode.RO in set(modes) else AccessMode.RW\n',
        'attachments of a host share the widest mode of theirs', 'P5'),
    Bug('a_connector_widens', 'db/attachments/attachment_values.py',
        '    mode = stored or _mode_of(connector)\n',
        '    mode = _mode_of(connector)\n',
        'a stored mode wins over what a host says', 'P5'),
    Bug('a_read_only_volume_is_written', 'domain/multiattach.py',
        '    if volume.readonly:\n        return _RO\n',
        '',
        'a read-only volume is attached read-only', 'P5',
        'blockattach.tests.db.test_legacy.LegacyTest'),

    # Which process may act on a pair.
    Bug('pairs_unlocked', 'volume/lease.py',
        '        with (self._names.held_by(volume_id, initiator),\n'
        '              self._lease(volume_id, initiator, self._until(caller)) as lease):\n',
        '        with self._lease(volume_id, initiator, self._until(caller)) as lease:\n',
        'threads of one process act on a pair one after the other', 'P4',
        'blockattach.tests.functional.test_repeated_calls.BeginningTest'),
    Bug('leases_are_ignored', 'volume/lease.py',
        '            if leases.take(self._database, lease.stored, self._seconds):\n',
        '            leases.take(self._database, lease.stored, self._seconds)\n'
        '            if lease.stored:\n',
        'processes of a cluster act on a pair one after the other', 'P4',
        'blockattach.tests.simulation.test_cluster.TurnsTest'),
    Bug('leases_are_taken_from_the_living', 'db/attachments/leases.py',
        '                                    _leases.c.deadline < clock.now()))\n'
        '                .values(owner=wanted.owner, deadline=clock.now(seconds)))',
        '                                    _leases.c.deadline >= clock.now()))\n'
        '                .values(owner=wanted.owner, deadline=clock.now(seconds)))',
        'a lease is had by one until its deadline', 'P4',
        'blockattach.tests.db.test_leases.PairTest'),
    Bug('a_lost_turn_is_recorded', 'db/attachments/leases.py',
        '        if connection.execute(_own(held)).rowcount != 1:\n',
        '        if connection.execute(_own(held)).rowcount > 1:\n',
        'a process that has lost its lease records nothing', 'P4',
        'blockattach.tests.db.test_leases.PairTest'),
    Bug('acted_after_the_turn', 'volume/lease.py',
        '        return self.lost or self._clock.monotonic() >= self.ends\n',
        '        return self.lost\n',
        'a process that was paused for too long does not act', 'P4',
        'blockattach.tests.simulation.test_cluster.TurnsTest'),
    Bug('no_deadline', 'db/attachments/attachment_values.py',
        "    return {'owner': volume.host, 'deadline': clock.Later(seconds)}\n",
        "    return {'owner': volume.host}\n",
        'what the service works on has a deadline', 'P9'),
    Bug('the_overdue_are_left', 'db/attachments/attachment_queries.py',
        '    if owner is None:\n        query = query.where(_rows.c.deadline < clock.now())\n',
        '    if owner is None:\n        query = query.where(_rows.c.deadline > clock.now())\n',
        'what is overdue is gone on with, and nothing else', 'P9',
        'blockattach.tests.db.test_queries'),
    Bug('the_known_are_removed', 'volume/manager.py',
        '    if row.state is _State.DISCONNECTING or row.previous_state is None:\n',
        '    if row is not None:\n',
        'what was cut off goes on where somebody knows of it', 'P4',
        'blockattach.tests.functional.test_attachment_faults.UpdateTest'),
    Bug('nothing_is_compared', 'domain/connection.py',
        '               if pair not in actual_by_pair or not '
        '_as_wanted(actual_by_pair[pair], grant)}\n',
        '               if pair not in actual_by_pair}\n',
        'a target that was changed by hand is repaired', 'P7',
        'blockattach.tests.functional.test_reconcile.TamperedTest'),
    Bug('unexported_under_way', 'volume/repair.py',
        '            if lease is None or grants.wanted(self._database, [volume_id]):\n',
        '            if lease is None:\n',
        'an export stays while any host is wanted there', 'P4',
        'blockattach.tests.functional.test_reconcile.TamperedTest.'
        'test_an_export_that_somebody_uses_since_the_look'),
    Bug('one_host_too_many_is_left', 'domain/connection.py',
        '    return missing, actual_by_pair.keys() - wanted_by_pair.keys()\n',
        '    return missing, set()\n',
        'a host that no attachment wants is revoked', 'P7'),

    # Volumes and their room.
    Bug('room_is_not_given_back', 'db/volumes/volumes.py',
        '        _give_back(connection, row)\n        volume_rows.move(connection, database, row, '
        '_Event.UNCLAIM',
        '        volume_rows.move(connection, database, row, _Event.UNCLAIM',
        'what a pool could not make takes no room there', 'P6'),
    Bug('room_for_everybody', 'db/volumes/volume_rows.py',
        '_pools.c.allocated_gb + _SIZE <= _pools.c.limit_gb',
        '_pools.c.allocated_gb + _SIZE > 0',
        'two schedulers do not give away the same room', 'P6',
        'blockattach.tests.db.test_volumes.PlacementTest'),
    Bug('a_rest_is_left', 'volume/remains.py',
        '            if here in (None, _Own.DELETING) and not self.removed(volume):\n',
        '            if here is _Own.DELETING and not self.removed(volume):\n',
        'a process that has lost a volume removes what it made', 'P2',
        'blockattach.tests.functional.test_volume_faults'),
    Bug('a_volume_is_made_twice', 'db/volumes/volume_rows.py',
        '    *_at(_Own.CREATING), _volumes.c.pool.is_(None)).values(\n',
        "    _volumes.c.id == prepared.value('volume_id')).values(\n",
        'a volume that waits for a pool is placed once', 'P6'),

    # Transfers.
    Bug('offered_and_still_available', 'db/transfers.py',
        '        volume_rows.move(connection, database, row, _Event.OFFER)\n',
        '',
        'an offer is there as long as its volume awaits it', 'P4'),
    Bug('withdrawn_and_still_awaited', 'db/transfers.py',
        '        volume_rows.move(connection, database, row, _Event.WITHDRAW)\n',
        '        pass\n',
        'a volume whose offer is taken back is used again', 'P6'),
    Bug('accepted_for_another', 'db/transfers.py',
        '                         user_id=user_id)\n',
        '                         user_id=row.user_id)\n',
        "a volume is that one's who has accepted it", 'P6'),

    # What only a client sees.
    Bug('nova_is_not_asked', 'domain/detach_rule.py',
        '    decisions.Row(1, lambda facts: facts.by_service, Outcome.ALLOWED),\n',
        '    decisions.Row(1, lambda facts: True, Outcome.ALLOWED),\n',
        'a caller that is no service does not end what a server uses', 'P4',
        'blockattach.tests.unit.domain.test_detach_rule'),
    Bug('another_body_under_the_name', 'db/idempotency.py',
        '    if row.body_digest != request.body_digest:\n',
        '    if row.body_digest is None:\n',
        'the name of a request stands for one body', 'P2',
        'blockattach.tests.db.test_idempotency'),
)
