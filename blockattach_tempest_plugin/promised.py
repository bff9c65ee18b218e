"""Test cases of guarantees beyond the Block Storage API, which Cinder does not give.

Against other services, these cases run only on request, and their failures count as differences.
"""

_QUEUED = 'a reserved, attaching or detaching volume rejects further attachments'
_DERIVED = 'the volume status is that of the latest request'
_MODE = 'an attachment created with a connector has no mode'
_NOTE = 'the mode is recorded, but is not enforced by the connection'
_DRIVER = 'the required keys of a connector depend on the driver'
_EMPTY = 'a request without a required value returns 500'

PROMISED: dict[str, str] = {
    'test_creation_with_a_connector_returns_status_attaching':
        'the response shows the state before the connection',
    'test_status_of_an_attached_volume_is_not_reset_to_available':
        'the status is set, and the attachments are kept',
    'test_volume_stays_in_use_while_another_attachment_is_reserved': _DERIVED,
    'test_volume_stays_in_use_while_another_attachment_is_attaching': _DERIVED,
    'test_connection_info_for_mode_ro_has_access_mode_ro': _NOTE,
    'test_host_with_mode_ro_has_access_mode_ro_beside_a_host_with_mode_rw': _NOTE,
    'test_volume_with_a_cleared_read_only_flag_is_attached_with_mode_rw':
        'a read-only flag that was set once still applies after its removal',
    'test_creation_sets_attach_mode_to_the_connector_mode': _MODE,
    'test_creation_with_a_connector_without_a_mode_sets_attach_mode_rw': _MODE,
    'test_attachment_is_reserved_while_another_is_reserved': _QUEUED,
    'test_host_connects_while_another_host_is_attaching': _QUEUED,
    'test_host_attaches_while_the_volume_is_detaching': _QUEUED,
    'test_two_hosts_connect_concurrently': _QUEUED,
    'test_four_hosts_connect_concurrently': _QUEUED,
    'test_sixteen_hosts_connect_concurrently': _QUEUED,
    'test_eight_attachments_are_reserved_concurrently': _QUEUED,
    'test_repeated_begin_detaching_action_on_a_multiattach_volume_is_accepted': _QUEUED,
    'test_concurrent_completion_and_deletion_leave_the_volume_available':
        'in one of six runs, the volume is in-use without attachments',
    'test_concurrent_update_and_deletion_leave_no_attachment': 'the update returns 500',
    'test_missing_body_is_rejected': _EMPTY,
    'test_update_with_a_connector_without_a_host_is_rejected': _EMPTY,
    'test_detach_action_accepts_null': _EMPTY,
    'test_update_with_a_connector_without_an_initiator_is_rejected': _DRIVER,
    'test_connector_without_an_initiator_is_rejected': _DRIVER,
    'test_rejected_connector_leaves_no_attachment': _DRIVER,
    'test_attachments_are_filtered_by_status': 'the filter status matches nothing',
}
"""Behavior of Cinder, by the name of the case."""
