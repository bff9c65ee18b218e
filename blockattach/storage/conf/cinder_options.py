"""Table of Cinder's options and their equivalents in this service, to check a cinder.conf.

`GROUPS` contains the options of Cinder 29 and of its libraries, including deprecated names.
``lab/system/test_cinder_options.py`` compares the table with an installed Cinder.
"""
import dataclasses
from collections.abc import Mapping

# Values that oslo.config reads as false.
_NO = ('false', 'no', 'off', '0')


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """Option of Cinder that is relevant to security, and that this service does not read.

    A process does not start with such an option, because ignoring the option could be dangerous.

    :ivar now: ``[group] name`` of the equivalent option; empty if there is none. The process
        starts if the equivalent is set, or if the default of the equivalent is the same value
    :ivar harmless: values in lower case that can be ignored
    """

    now: str = ''
    harmless: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Options of one group of a cinder.conf.

    :ivar same: names of the options that this service reads under the same name, separated by
        white space
    :ivar unneeded: names of the options that can be ignored, separated by white space
    :ivar renamed: ``[group] name`` in this service by the name of the option in Cinder. BACKEND
        stands for the group of each backend
    :ivar stops: options that prevent the start, unless ``[service] accept_unsupported`` names them
    """

    same: str = ''
    unneeded: str = ''
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stops: Mapping[str, Stop] = dataclasses.field(default_factory=dict)

    def names(self) -> frozenset[str]:
        return frozenset((*self.same.split(), *self.unneeded.split(), *self.renamed, *self.stops))


GROUPS: Mapping[str, Group] = {
    'DEFAULT': Group(
        same="""
            config_dir config_file config_source control_exchange debug default_log_levels
            executor_thread_pool_size fatal_deprecations graceful_shutdown_timeout
            instance_format instance_uuid_format log_color log_config log_config_append
            log_date_format log_dir log_file log_rotate_interval log_rotate_interval_type
            log_rotation_type logdir logfile logging_context_format_string
            logging_debug_format_suffix logging_default_format_string logging_exception_prefix
            logging_user_identity_format max_logfile_count max_logfile_size_mb publish_errors
            rate_limit_burst rate_limit_except_level rate_limit_interval rpc_ping_enabled
            rpc_response_timeout rpc_thread_pool_size state_path syslog_log_facility
            transport_url use_journal use_json use_stderr use_syslog
        """,
        unneeded="""
            acs5000_copy_interval acs5000_multiattach acs5000_volpool_name
            allow_availability_zone_fallback allow_compression_on_image_upload
            allowed_direct_url_schemes api_enable_ssl api_paste_config api_rate_limit
            as13000_ipsan_pools as13000_meta_pool as13000_token_available_time az_cache_duration
            backdoor_port backdoor_socket backend_availability_zone backup_api_class
            backup_ceph_chunk_size backup_ceph_conf backup_ceph_image_journals
            backup_ceph_max_snapshots backup_ceph_pool backup_ceph_stripe_count
            backup_ceph_stripe_unit backup_ceph_user backup_compression_algorithm
            backup_container backup_create_containers backup_driver
            backup_driver_init_check_interval backup_driver_stats_polling_interval
            backup_driver_status_check_interval backup_enable_progress_timer backup_file_size
            backup_gcs_block_size backup_gcs_bucket backup_gcs_bucket_location
            backup_gcs_credential_file backup_gcs_enable_progress_timer backup_gcs_num_retries
            backup_gcs_object_size backup_gcs_project_id backup_gcs_proxy_url
            backup_gcs_reader_chunk_size backup_gcs_retry_error_codes backup_gcs_storage_class
            backup_gcs_user_agent backup_gcs_writer_chunk_size backup_manager
            backup_max_operations backup_metadata_version backup_mount_attempts
            backup_mount_options backup_mount_point_base backup_name_template
            backup_native_threads_pool_size backup_object_number_per_notification
            backup_posix_path backup_s3_block_size backup_s3_ca_cert_file
            backup_s3_enable_progress_timer backup_s3_endpoint_url backup_s3_http_proxy
            backup_s3_https_proxy backup_s3_max_pool_connections backup_s3_md5_validation
            backup_s3_object_size backup_s3_retry_max_attempts backup_s3_retry_mode
            backup_s3_sse_customer_algorithm backup_s3_sse_customer_key
            backup_s3_store_access_key backup_s3_store_bucket backup_s3_store_secret_key
            backup_s3_timeout backup_s3_verify_ssl backup_service_inithost_offload
            backup_sha_block_size_bytes backup_share backup_swift_auth backup_swift_auth_insecure
            backup_swift_auth_url backup_swift_auth_version backup_swift_block_size
            backup_swift_ca_cert_file backup_swift_container backup_swift_create_storage_policy
            backup_swift_enable_progress_timer backup_swift_key backup_swift_object_size
            backup_swift_project backup_swift_project_domain backup_swift_region_name
            backup_swift_retry_attempts backup_swift_retry_backoff backup_swift_service_auth
            backup_swift_tenant backup_swift_url backup_swift_user backup_swift_user_domain
            backup_timer_interval backup_use_same_host backup_use_temp_snapshot backup_workers
            chap_password chap_password_len chap_username chiscsi_conf client_socket_timeout
            clone_volume_timeout compression_format compute_api_class consistencygroup_api_class
            datera_503_interval datera_503_timeout datera_api_port datera_api_version
            datera_debug datera_debug_replica_count_override datera_disable_extended_metadata
            datera_disable_profiler datera_disable_template_override datera_enable_image_cache
            datera_image_cache_volume_type_id datera_ldap_server datera_tenant_id
            datera_volume_type_defaults default_group_type default_sandstone_target_ips
            disk_geometry driver_client_cert driver_client_cert_key driver_data_namespace
            driver_ssl_cert_path driver_ssl_cert_verify driver_use_ssl dsware_isthin
            dsware_manager dsware_rest_url dsware_storage_pools enable_unsupported_driver
            enforce_multipath_for_image_xfer fsc_clone_volume_timeout fusionstorageagent
            glance_api_ssl_compression glance_core_properties glusterfs_backup_mount_point
            glusterfs_backup_share group_api_class hitachi_mirror_auth_password
            hitachi_mirror_auth_user hitachi_mirror_compute_target_ports
            hitachi_mirror_ldev_range hitachi_mirror_pair_target_number hitachi_mirror_pool
            hitachi_mirror_rest_api_ip hitachi_mirror_rest_api_port
            hitachi_mirror_rest_pair_target_ports hitachi_mirror_rest_password
            hitachi_mirror_rest_user hitachi_mirror_snap_pool hitachi_mirror_ssl_cert_path
            hitachi_mirror_ssl_cert_verify hitachi_mirror_storage_id hitachi_mirror_target_ports
            hitachi_mirror_use_chap_auth hitachi_path_group_id hitachi_quorum_disk_id
            hitachi_replication_copy_speed hitachi_replication_journal_creation_speed
            hitachi_replication_journal_overflow_tolerance
            hitachi_replication_journal_path_failure_tolerance hitachi_replication_journal_size
            hitachi_replication_journal_transfer_speed hitachi_replication_journal_use_cache
            hitachi_replication_mun hitachi_replication_number
            hitachi_replication_status_check_long_interval
            hitachi_replication_status_check_short_interval
            hitachi_replication_status_check_timeout hitachi_set_mirror_reserve_attribute
            image_introspection_address_space_limit image_introspection_cpu_limit
            image_upload_use_cinder_backend image_upload_use_internal_tenant infortrend_cli_cache
            infortrend_cli_max_retries infortrend_cli_path infortrend_cli_timeout
            infortrend_iqn_prefix infortrend_pools_name infortrend_slots_a_channels_id
            infortrend_slots_b_channels_id init_host_max_objects_retrieval
            initiator_assign_sandstone_target_ip instorage_mcs_allow_tenant_qos
            instorage_mcs_iscsi_chap_enabled instorage_mcs_localcopy_rate
            instorage_mcs_localcopy_timeout instorage_mcs_vol_autoexpand
            instorage_mcs_vol_compression instorage_mcs_vol_grainsize instorage_mcs_vol_intier
            instorage_mcs_vol_iogrp instorage_mcs_vol_rsize instorage_mcs_vol_warning
            instorage_mcs_volpool_name instorage_san_secondary_ip iops_for_image_migration
            iscsi_target_flags iscsi_write_cache iser_helper iser_ip_address iser_port
            iser_target_prefix java_path jovian_block_size jovian_ignore_tpath jovian_pool
            jovian_recovery_delay keystone_catalog_info kioxia_block_size kioxia_cafile
            kioxia_desired_bw_per_gb kioxia_desired_iops_per_gb kioxia_max_bw_per_gb
            kioxia_max_iops_per_gb kioxia_max_replica_down_time kioxia_num_replicas
            kioxia_provisioning_type kioxia_same_rack_allowed
            kioxia_snap_reserved_space_percentage kioxia_snap_vol_reserved_space_percentage
            kioxia_snap_vol_span_allowed kioxia_span_allowed kioxia_token kioxia_url
            kioxia_vol_reserved_space_percentage kioxia_writable log_options manager_ips max_age
            max_header_line message_reap_interval message_ttl
            migration_create_volume_timeout_secs monkey_patch monkey_patch_modules my_ip
            num_iser_scan_tries num_shell_tries num_volume_device_scan_tries nvme_connect_port
            nvmeof_conn_info_version nvmet_ns_id nvmet_port_id osapi_volume_ext_list
            osapi_volume_extension osapi_volume_workers periodic_fuzzy_delay periodic_interval
            pool_id_filter pool_type project_id_regex reinit_driver_count replication_device
            reservation_clean_interval reservation_expire restore_discard_excess_bytes
            rootwrap_config run_external_periodic_tasks san_hosts sandstone_pool scheduler_driver
            scheduler_driver_init_wait_time scheduler_host_manager scheduler_json_config_location
            scheduler_manager scheduler_weight_handler scst_target_driver scst_target_iqn_name
            snapshot_name_template snapshot_same_host split_loggers ssh_hosts_key_file
            storage_protocol strict_ssh_host_key_policy swift_catalog_info target_protocol
            tcp_keepalive tcp_keepalive_count tcp_keepalive_interval tcp_keepidle trace_flags
            transfer_api_class until_refresh use_chap_auth use_forwarded_for
            use_multipath_for_image_xfer volume_api_class volume_clear_ionice volume_clear_size
            volume_copy_blkio_cgroup_name volume_dd_blocksize volume_manager volume_name_template
            volume_service_inithost_offload volume_transfer_key_length
            volume_transfer_salt_length volume_usage_audit_period vrts_lun_sparse
            vrts_target_config wsgi_default_pool_size wsgi_keep_alive wsgi_log_format
            wsgi_server_debug zoning_mode
        """,
        renamed={
            'allocated_capacity_weight_multiplier': '[scheduler] scheduler_default_weighers',
            'backend_stats_polling_interval': '[volume] backend_stats_polling_interval',
            'capacity_weight_multiplier': '[scheduler] scheduler_default_weighers',
            'cinder_internal_tenant_project_id': '[images] cinder_internal_tenant_project_id',
            'cinder_internal_tenant_user_id': '[images] cinder_internal_tenant_user_id',
            'cloned_volume_same_az': '[api] cloned_volume_same_az',
            'cluster': '[service] cluster',
            'default_availability_zone': '[control] storage_availability_zone',
            'default_volume_type': '[control] default_volume_type',
            'enable_force_upload': '[images] enable_force_upload',
            'enabled_backends': '[volume] enabled_backends',
            'filter_function': '[BACKEND] filter_function',
            'glance_api_insecure': '[glance] insecure',
            'glance_api_servers': '[glance] endpoint_override',
            'glance_catalog_info': '[glance] valid_interfaces',
            'glance_num_retries': '[glance] num_retries',
            'glance_request_timeout': '[glance] timeout',
            'goodness_function': '[BACKEND] goodness_function',
            'host': '[service] host',
            'image_compress_on_upload': '[images] image_compress_on_upload',
            'image_conversion_address_space_limit':
                '[images] image_conversion_address_space_limit',
            'image_conversion_cpu_limit': '[images] image_conversion_cpu_limit',
            'image_conversion_dir': '[images] image_conversion_dir',
            'image_volume_cache_enabled': '[BACKEND] image_volume_cache_enabled',
            'image_volume_cache_max_count': '[BACKEND] image_volume_cache_max_count',
            'image_volume_cache_max_size_gb': '[BACKEND] image_volume_cache_max_size_gb',
            'iscsi_secondary_ip_addresses': '[BACKEND] target_secondary_ip_addresses',
            'max_over_subscription_ratio': '[BACKEND] max_over_subscription_ratio',
            'no_snapshot_gb_quota': '[quota] no_snapshot_gb_quota',
            'osapi_max_limit': '[api] osapi_max_limit',
            'osapi_volume_listen': '[api] host',
            'osapi_volume_listen_port': '[api] port',
            'public_endpoint': '[api] public_endpoint',
            'quota_driver': '[quota] quota_driver',
            'report_discard_supported': '[BACKEND] report_discard_supported',
            'report_interval': '[service] report_interval',
            'reserved_image_namespaces': '[images] reserved_image_namespaces',
            'reserved_percentage': '[BACKEND] reserved_percentage',
            'resource_query_filters_file': '[api] resource_query_filters_file',
            'scheduler_default_filters': '[scheduler] scheduler_default_filters',
            'scheduler_default_weighers': '[scheduler] scheduler_default_weighers',
            'scheduler_max_attempts': '[scheduler] scheduler_max_attempts',
            'service_down_time': '[service] service_down_time',
            'storage_availability_zone': '[control] storage_availability_zone',
            'target_helper': '[BACKEND] target',
            'target_ip_address': '[BACKEND] target_ip_address',
            'target_port': '[BACKEND] target_port',
            'target_prefix': '[BACKEND] target_prefix',
            'target_secondary_ip_addresses': '[BACKEND] target_secondary_ip_addresses',
            'use_default_quota_class': '[quota] use_default_quota_class',
            'volume_backend_name': '[BACKEND] volume_backend_name',
            'volume_clear': '[BACKEND] volume_clear',
            'volume_copy_bps_limit': '[BACKEND] volume_copy_bps_limit',
            'volume_number_multiplier': '[scheduler] scheduler_default_weighers',
            'volumes_dir': '[BACKEND] volumes_dir',
        },
        stops={
            'auth_strategy': Stop('[api] auth_strategy'),
            'enable_new_services': Stop(harmless=('true',)),
            'glance_ca_certificates_file': Stop('[glance] cafile'),
            'glance_certfile': Stop('[glance] certfile'),
            'glance_keyfile': Stop('[glance] keyfile'),
            'image_conversion_disable': Stop('[images] image_conversion_disable'),
            'osapi_volume_use_ssl': Stop('[api] tls_cert_file', harmless=_NO),
            'per_volume_size_limit': Stop('[quota] per_volume_size_limit'),
            'quota_backup_gigabytes': Stop('[quota] quota_backup_gigabytes'),
            'quota_backups': Stop('[quota] quota_backups'),
            'quota_gigabytes': Stop('[quota] quota_gigabytes'),
            'quota_groups': Stop('[quota] quota_groups'),
            'quota_snapshots': Stop('[quota] quota_snapshots'),
            'quota_volumes': Stop('[quota] quota_volumes'),
            'verify_glance_signatures': Stop('[images] verify_glance_signatures'),
            'vmdk_allowed_types': Stop('[images] vmdk_allowed_types'),
        },
    ),
    'keystone_authtoken': Group(
        same="""
            auth_version cache cafile certfile enforce_token_bind http_connect_timeout
            http_request_max_retries include_service_catalog insecure interface keyfile
            memcache_password memcache_pool_conn_get_timeout memcache_pool_dead_retry
            memcache_pool_maxsize memcache_pool_socket_timeout memcache_pool_unused_timeout
            memcache_sasl_enabled memcache_secret_key memcache_security_strategy memcache_servers
            memcache_tls_allowed_ciphers memcache_tls_cafile memcache_tls_certfile
            memcache_tls_enabled memcache_tls_keyfile memcache_use_advanced_pool
            memcache_username memcached_servers region_name service_token_roles
            service_token_roles_required service_type token_cache_time www_authenticate_uri
        """,
        unneeded="""
            delay_auth_decision
        """,
        stops={
            'auth_plugin': Stop('[api] auth_strategy'),
            'auth_section': Stop('[api] auth_strategy'),
            'auth_type': Stop('[api] auth_strategy'),
        },
    ),
    'oslo_policy': Group(
        same="""
            enforce_new_defaults policy_default_rule policy_dirs policy_file remote_content_type
            remote_ssl_ca_crt_file remote_ssl_client_crt_file remote_ssl_client_key_file
            remote_ssl_verify_server_crt remote_timeout
        """,
    ),
    'ssl': Group(
        stops={
            'ca_file': Stop('[api] tls_client_ca_file'),
            'cert_file': Stop('[api] tls_cert_file'),
            'ciphers': Stop(),
            'key_file': Stop('[api] tls_key_file'),
            'version': Stop(),
        },
    ),
    'key_manager': Group(
        same="""
            api_class auth_type auth_url backend domain_id domain_name password project_domain_id
            project_domain_name project_id project_name reauthenticate token trust_id
            user_domain_id user_domain_name user_id username
        """,
        stops={
            'fixed_key': Stop(),
        },
    ),
    'barbican': Group(
        same="""
            auth_endpoint barbican_api_version barbican_endpoint barbican_endpoint_type
            barbican_region_name cafile certfile collect_timing insecure keyfile
            number_of_retries retry_delay send_service_user_token split_loggers timeout
            tls_ciphers tls_min_version verify_ssl verify_ssl_path
        """,
    ),
    'service_user': Group(
        same="""
            auth_url cafile certfile domain_id domain_name insecure keyfile password
            project_domain_id project_domain_name project_id project_name
            send_service_user_token system_scope trust_id user_domain_id user_domain_name user_id
            user_name username
        """,
        unneeded="""
            collect_timing split_loggers timeout
        """,
        stops={
            'tls_ciphers': Stop(),
            'tls_min_version': Stop(),
        },
    ),
    'oslo_limit': Group(
        same="""
            auth_section auth_type auth_url cafile certfile collect_timing connect_retries
            connect_retry_delay default_domain_id default_domain_name domain_id domain_name
            endpoint_id endpoint_interface endpoint_override endpoint_region_name
            endpoint_service_name endpoint_service_type insecure keyfile max_version min_version
            password project_domain_id project_domain_name project_id project_name region_name
            retriable_status_codes service_name service_type split_loggers status_code_retries
            status_code_retry_delay system_scope tenant_id tenant_name timeout tls_ciphers
            tls_min_version trust_id user_domain_id user_domain_name user_id username
            valid_interfaces version
        """,
    ),
}
