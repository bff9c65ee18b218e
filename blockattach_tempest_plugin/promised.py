"""Test cases of guarantees beyond the Block Storage API, which Cinder does not give.

Against other services these cases run only on request, and do not count as failures.
"""

_QUEUED = 'a reserved, attaching or detaching volume rejects further attachments'
_DERIVED = 'the volume status is that of the latest request'
_MODE = 'an attachment created with a connector has no mode'
_NOTE = 'the mode is recorded, but is not enforced by the connection'
_DRIVER = 'the required keys of a connector depend on the driver'
_EMPTY = 'a request without a required value returns 500'

PROMISED: dict[str, str] = {
    'test_creating_with_a_connector_answers_the_true_state':
        'the response shows the state before the connection',
    'test_a_status_with_attachments_is_not_set_to_available':
        'the status is set, and the attachments are kept',
    'test_a_volume_stays_in_use_while_it_is_reserved_once_more': _DERIVED,
    'test_a_volume_stays_in_use_while_another_host_is_attaching': _DERIVED,
    'test_a_host_that_may_only_read_is_not_allowed_to_write': _NOTE,
    'test_a_reader_is_not_allowed_to_write_beside_a_writer': _NOTE,
    'test_a_volume_that_is_no_longer_read_only_is_attached_to_write':
        'a read-only flag that was set once still applies after its removal',
    'test_creating_takes_the_mode_of_the_connector': _MODE,
    'test_creating_with_a_connector_without_a_mode_makes_it_rw': _MODE,
    'test_a_host_joins_while_another_is_reserved': _QUEUED,
    'test_a_host_joins_while_another_is_attaching': _QUEUED,
    'test_a_host_joins_while_another_is_detaching': _QUEUED,
    'test_two_hosts_join_at_once': _QUEUED,
    'test_four_hosts_join_at_once': _QUEUED,
    'test_sixteen_hosts_join_at_once': _QUEUED,
    'test_eight_reserve_at_once': _QUEUED,
    'test_servers_of_one_volume_begin_to_detach_one_after_the_other': _QUEUED,
    'test_a_completion_and_a_deletion_leave_no_volume_in_use':
        'in one of six runs, the volume is in-use without attachments',
    'test_an_update_and_a_deletion_leave_nothing': 'the update returns 500',
    'test_a_body_that_is_missing_is_refused': _EMPTY,
    'test_an_update_without_a_host_is_refused': _EMPTY,
    'test_detaching_takes_null': _EMPTY,
    'test_an_update_without_an_initiator_is_refused': _DRIVER,
    'test_a_connector_without_an_initiator_is_refused_when_creating': _DRIVER,
    'test_a_connector_that_is_refused_leaves_no_attachment': _DRIVER,
    'test_attachments_are_found_by_status': 'the filter status matches nothing',
}
"""Behavior of Cinder, by the name of the case."""
