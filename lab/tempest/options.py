"""Options of tempest.conf that depend on the service and not on the cloud.

`tools/run-tempest` and the plugin for devstack use these options, and add those of their own
cloud. The module prints a line for each option when it is executed: group, name and value,
separated by tabs.
"""

OFFERED = {
    'enforce_scope': {'cinder': 'true'},
    'compute-feature-enabled': {'volume_multiattach': 'true'},
    'volume': {
        'catalog_type': 'block-storage', 'min_microversion': '3.0', 'max_microversion': 'latest',
        'manage_snapshot_ref': 'source-name,snapshot-%s', 'storage_protocol': 'iSCSI',
        'vendor_name': 'Open Source', 'volume_type_multiattach': 'multiattach'},
    'volume-feature-enabled': {
        'backup': 'false', 'snapshot': 'true', 'clone': 'true', 'multi_backend': 'true',
        'manage_volume': 'true', 'manage_snapshot': 'true', 'volume_revert': 'true',
        'consistency_group': 'false', 'volume_locality': 'false', 'concurrency_tests': 'true',
        'api_extensions': 'all'},
}
"""Options by group.

``extend_attached_volume`` depends on the target and ``backend_names`` on the cloud, so they are
not included.
"""

if __name__ == '__main__':
    for group, options in OFFERED.items():
        for name, value in options.items():
            print(group, name, value, sep='\t')
