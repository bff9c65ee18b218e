#!/usr/bin/env bats
# Tests of the files that the plugin writes: settings, blockattach.conf, and the files of Nova and
# Tempest. blockattach/tests/rules/test_devstack.py checks that blockattach.conf is valid.
load playing

@test 'the services of Cinder are disabled' {
    ENABLED_SERVICES=key,c-sch,c-api,c-vol,mysql play
    [ "$(cat "$SANDBOX/services")" = \
        key,mysql,blockattach-api,blockattach-scheduler,blockattach-volume,blockattach-control ]
}

@test 'local.conf takes precedence over the defaults' {
    export BLOCKATTACH_BACKENDS=fast,slow BLOCKATTACH_LVM_TYPE=thick BLOCKATTACH_TARGET_PORT=3261
    export BLOCKATTACH_TARGET_PREFIX=iqn.2026-01.org.example: BLOCKATTACH_API_THREADS=7
    play_stack
    [ "$(value etc/blockattach.conf volume enabled_backends)" = fast,slow ]
    for backend in fast slow; do
        [ "$(value etc/blockattach.conf $backend volume_group)" = stack-volumes-$backend ]
        [ "$(value etc/blockattach.conf $backend lvm_type)" = thick ]
        [ "$(value etc/blockattach.conf $backend target_port)" = 3261 ]
        [ "$(value etc/blockattach.conf $backend target_prefix)" = iqn.2026-01.org.example: ]
        [ -e "$SANDBOX/groups/stack-volumes-$backend" ]
        # Thick volumes need no thin pool.
        [ ! -s "$SANDBOX/groups/stack-volumes-$backend" ]
    done
    [ "$(value etc/blockattach-api-uwsgi.ini uwsgi threads)" = 7 ]
    grep -x 'python3 tools/demo/devcloud/volume_types.py --backend fast --backend slow' \
        "$SANDBOX/calls/stack extra"
    [ "$(value tempest.conf volume backend_names)" = fast,slow ]
    [ "$(value tempest.conf volume-feature-enabled multi_backend)" = true ]
}

@test 'passwords and the key are readable only by their owner' {
    play 'stack post-config'
    [ "$(stat -c %a "$SANDBOX/etc/blockattach.conf")" = 600 ]
    [ "$(stat -c %a "$SANDBOX/data/blockattach")" = 700 ]
    [ "$(stat -c %a "$SANDBOX/data/blockattach/seal.key")" = 600 ]
}

@test 'uWSGI options match etc/uwsgi/blockattach-api.ini' {
    play 'stack post-config'
    cp "$BATS_TEST_DIRNAME/../../etc/uwsgi/blockattach-api.ini" "$SANDBOX/ours.ini"
    for option in module lazy-apps need-app post-buffering skip-atexit-teardown; do
        [ -n "$(value ours.ini uwsgi $option)" ]
        [ "$(value etc/blockattach-api-uwsgi.ini uwsgi $option)" = \
            "$(value ours.ini uwsgi $option)" ]
    done
    [ "$(value etc/blockattach-api-uwsgi.ini uwsgi env)" = \
        "BLOCKATTACH_CONFIG_FILES=$SANDBOX/etc/blockattach.conf" ]
}

@test 'Nova uses its own account and sends service tokens' {
    play 'stack post-config'
    [ "$(value nova.conf cinder os_region_name)" = RegionOne ]
    [ "$(value nova.conf cinder username)" = nova ]
    [ "$(value nova.conf service_user send_service_user_token)" = True ]
    [ "$(value nova.conf service_user username)" = nova ]
    [ "$(value etc/blockattach.conf keystone_authtoken service_token_roles_required)" = True ]
    [ "$(value etc/blockattach.conf keystone_authtoken username)" = blockattach ]
    [ "$(value etc/blockattach.conf nova username)" = nova ]
    [ "$(value etc/blockattach.conf glance username)" = glance ]
    [ -z "$(value etc/blockattach.conf nova cafile)" ]
}

@test 'without Nova and Glance, their access is not configured' {
    ENABLED_SERVICES=key,mysql,rabbit play 'stack post-config'
    [ "$(value etc/blockattach.conf nova detach_rule)" = off ]
    [ -z "$(value etc/blockattach.conf nova auth_url)" ]
    [ -z "$(value etc/blockattach.conf glance auth_url)" ]
    [ ! -e "$SANDBOX/nova.conf" ]
}

@test 'with TLS, certificates are verified and proxy headers are parsed' {
    SERVICE_PROTOCOL=https ENABLED_SERVICES=key,n-api,g-api,mysql,tls-proxy \
        play 'stack post-config'
    [ "$(value etc/blockattach.conf api public_endpoint)" = https://192.0.2.10/volume ]
    [ "$(value etc/blockattach.conf oslo_middleware enable_proxy_headers_parsing)" = True ]
    for place in 'etc/blockattach.conf nova' 'etc/blockattach.conf glance' 'nova.conf cinder'; do
        # A file and one of its sections.
        read -r file section <<<"$place"
        [ "$(value "$file" "$section" cafile)" = "$SANDBOX/ca-bundle.pem" ]
    done
    grep -x 'get_or_create_endpoint block-storage RegionOne https://192.0.2.10/volume/v3' \
        "$SANDBOX/calls/stack post-config"
}

@test 'targets use IPv6 if the services use IPv6' {
    SERVICE_IP_VERSION=6 play 'stack post-config'
    [ "$(value etc/blockattach.conf lvm-1 target_ip_address)" = 2001:db8::10 ]
}

@test 'Tempest options match the features of the service and the target' {
    play 'stack test-config'
    [ "$(value tempest.conf service_available cinder)" = True ]
    [ "$(value tempest.conf volume catalog_type)" = block-storage ]
    [ "$(value tempest.conf volume volume_type_multiattach)" = multiattach ]
    [ "$(value tempest.conf compute-feature-enabled volume_multiattach)" = true ]
    [ "$(value tempest.conf volume-feature-enabled multi_backend)" = False ]
    [ "$(value tempest.conf volume-feature-enabled extend_attached_volume)" = True ]
    BLOCKATTACH_TARGET=tgt play 'stack test-config'
    [ "$(value tempest.conf volume-feature-enabled extend_attached_volume)" = False ]
}

@test 'package lists contain one name per line' {
    for list in "$BATS_TEST_DIRNAME"/../files/*/blockattach; do
        run grep -Evx '[a-z0-9-]+( # NOPRIME)?' "$list"
        [ "$status" -eq 1 ]
        sort --check "$list"
    done
}
