#!/usr/bin/env bats
# Tests of the order of calls in each phase of the plugin, with recorded functions of devstack.
load playing

LIO_END='sudo bin/python3 devstack/remove_lio_exports.py --config-file etc/blockattach.conf
python3 devstack/remove_lio_exports.py --config-file etc/blockattach.conf'
TGT_END='sudo bin/blockattach-manage --config-file etc/blockattach.conf target stop --force
blockattach-manage --config-file etc/blockattach.conf target stop --force'
POOL='sudo lvcreate --yes --type thin-pool --extents 95%FREE --addtag blockattach'

@test 'pre-install loads the LIO modules now and at each boot' {
    play 'stack pre-install'
    calls 'stack pre-install' <<END
sudo modprobe target_core_mod
sudo modprobe target_core_iblock
sudo modprobe iscsi_target_mod
sudo tee /etc/modules-load.d/blockattach.conf
END
}

@test 'pre-install installs tgt and stops the tgtd of the distribution' {
    BLOCKATTACH_TARGET=tgt play 'stack pre-install'
    calls 'stack pre-install' <<END
install_package tgt
sudo systemctl disable --now tgt
END
}

@test 'install installs the checkout with the extras of target and database' {
    play 'stack install'
    calls 'stack install' <<END
setup_develop . memcached,mysql,lio
END
    BLOCKATTACH_TARGET=tgt play 'stack install'
    calls 'stack install.2' <<END
setup_develop . memcached,mysql
END
}

@test 'post-config creates accounts, configuration, tables and volume groups' {
    STACK_USER=stack play 'stack post-config'
    calls 'stack post-config' <<END
create_service_user blockattach
get_or_create_service blockattach block-storage Block storage of blockattach
get_or_create_endpoint block-storage RegionOne http://192.0.2.10/volume/v3
sudo install -d -m 0755 -o stack etc
sudo install -d -m 0700 data/blockattach data/blockattach/health
sudo chown -R stack data/blockattach
sudo install -m 0600 -o stack /dev/null etc/blockattach.conf
iniset_rpc_backend blockattach etc/blockattach.conf
configure_keystone_authtoken_middleware etc/blockattach.conf blockattach keystone_authtoken block-storage
configure_keystoneauth etc/blockattach.conf blockattach keystone_authtoken
sudo rm -f apache/blockattach-api.conf
write_uwsgi_config etc/blockattach-api-uwsgi.ini blockattach.wsgi:application /volume  blockattach-api
init_os_brick
configure_keystoneauth nova.conf nova cinder
configure_keystoneauth nova.conf nova service_user
recreate_database blockattach
blockattach-manage --config-file etc/blockattach.conf db sync
$LIO_END
sudo vgs stack-volumes-lvm-1
init_lvm_volume_group stack-volumes-lvm-1 30G
$POOL --name stack-volumes-lvm-1-pool stack-volumes-lvm-1
set_lvm_filter
END
}

@test 'extra starts the processes, waits until they are ready, and creates the types' {
    STACK_USER=stack play 'stack extra'
    calls 'stack extra' <<END
run_process blockattach-api bin/uwsgi --procname-prefix blockattach-api --ini etc/blockattach-api-uwsgi.ini
run_process blockattach-scheduler bin/blockattach-scheduler --config-file etc/blockattach.conf
run_process blockattach-volume bin/blockattach-volume --config-file etc/blockattach.conf  stack
run_process blockattach-control bin/blockattach-control --config-file etc/blockattach.conf
$(ready blockattach-api)
$(ready blockattach-scheduler)
$(ready blockattach-volume)
$(ready blockattach-control)
wait_for_service 60 http://192.0.2.10/volume/healthcheck
python3 tools/demo/devcloud/volume_types.py --backend lvm-1
END
}

@test 'extra runs the volume service as root with tgt' {
    STACK_USER=stack BLOCKATTACH_TARGET=tgt play 'stack extra'
    grep -x 'run_process blockattach-volume .*conf  root' "$SANDBOX/calls/stack extra"
    [ "$(grep -c ' root$' "$SANDBOX/calls/stack extra")" -eq 1 ]
}

@test 'extra fails if a process is not ready or the API does not respond' {
    STAND_IN_NEVER_READY=1 run play 'stack extra'
    [ "$status" -ne 0 ]
    [[ $output == *'blockattach-api is not ready'* ]]
    STAND_IN_NO_ANSWER=1 run play 'stack extra'
    [ "$status" -ne 0 ]
    [[ $output == *'blockattach-api does not respond at http://192.0.2.10/volume'* ]]
}

@test 'test-config does nothing without Tempest' {
    ENABLED_SERVICES=key,mysql play 'stack test-config'
    calls 'stack test-config' </dev/null
    [ ! -e "$SANDBOX/tempest.conf" ]
}

@test 'unstack stops the processes in reverse order, then removes the LIO exports' {
    play 'stack post-config' unstack
    calls unstack <<END
stop_process blockattach-control
stop_process blockattach-volume
stop_process blockattach-scheduler
stop_process blockattach-api
$LIO_END
END
}

@test 'unstack stops the tgtd of the volume service' {
    BLOCKATTACH_TARGET=tgt play 'stack post-config' unstack
    calls unstack <<END
stop_process blockattach-control
stop_process blockattach-volume
stop_process blockattach-scheduler
stop_process blockattach-api
$TGT_END
END
}

@test 'clean removes everything that the phases created' {
    play_stack unstack clean
    calls clean <<END
$LIO_END
sudo vgs stack-volumes-lvm-1
clean_lvm_volume_group stack-volumes-lvm-1
clean_lvm_filter
sudo rm -f /etc/modules-load.d/blockattach.conf
remove_uwsgi_config etc/blockattach-api-uwsgi.ini blockattach-api
sudo rm -f apache/blockattach-api.conf
sudo rm -rf etc data/blockattach
END
    for folder in groups apache data; do
        [ -z "$(ls -A "$SANDBOX/$folder")" ]
    done
    [ ! -e "$SANDBOX/etc" ]
}

@test 'repeated phases produce the same result' {
    play_stack
    cp -r "$SANDBOX/etc" "$SANDBOX/first"
    cp "$SANDBOX"/*.conf "$SANDBOX/data/blockattach/seal.key" "$SANDBOX/first"
    play_stack
    for phase in "${STACK[@]}"; do
        # The second run removes the volume group of the first run.
        diff <(cat "$SANDBOX/calls/$phase") \
            <(grep -v '^clean_lvm_volume_group ' "$SANDBOX/calls/$phase.2")
    done
    grep -x 'clean_lvm_volume_group stack-volumes-lvm-1' "$SANDBOX/calls/stack post-config.2"
    for file in "$SANDBOX"/etc/* "$SANDBOX"/*.conf "$SANDBOX/data/blockattach/seal.key"; do
        diff "$SANDBOX/first/${file##*/}" "$file"
    done
    [ "$(wc -l <"$SANDBOX/groups/stack-volumes-lvm-1")" -eq 1 ]
    [ "$(wc -l <"$SANDBOX/apache/blockattach-api.conf")" -eq 1 ]
}

@test 'unstack and clean can be repeated, also if nothing was created' {
    play unstack clean unstack clean
    calls clean.2 <<END
sudo vgs stack-volumes-lvm-1
clean_lvm_filter
sudo rm -f /etc/modules-load.d/blockattach.conf
remove_uwsgi_config etc/blockattach-api-uwsgi.ini blockattach-api
sudo rm -f apache/blockattach-api.conf
sudo rm -rf etc data/blockattach
END
    diff "$SANDBOX/calls/unstack" "$SANDBOX/calls/unstack.2"
    play_stack unstack clean "${STACK[@]}"
    [ -s "$SANDBOX/etc/blockattach.conf" ]
}

@test 'a host with only the volume service creates neither accounts nor tables' {
    export DISABLED_SERVICES=blockattach-api,blockattach-scheduler,blockattach-control
    export ENABLED_SERVICES=n-cpu STACK_USER=stack
    play 'stack post-config' 'stack extra' clean
    run grep -E 'service|endpoint|database|uwsgi|db sync|types' "$SANDBOX/calls/stack post-config"
    [ "$output" = 'configure_keystoneauth nova.conf nova service_user' ]
    calls 'stack extra' <<END
run_process blockattach-volume bin/blockattach-volume --config-file etc/blockattach.conf  stack
$(ready blockattach-volume)
END
    run grep uwsgi "$SANDBOX/calls/clean"
    [ "$status" -ne 0 ]
}

@test 'nothing is done if none of the services is enabled' {
    services=blockattach-api,blockattach-scheduler,blockattach-volume,blockattach-control
    DISABLED_SERVICES=$services play_stack unstack clean
    [ -z "$(cat "$SANDBOX"/calls/*)" ]
}

@test 'an unsupported target is rejected before packages are installed' {
    BLOCKATTACH_TARGET=iet run play 'stack pre-install'
    [ "$status" -ne 0 ]
    [[ $output == *'BLOCKATTACH_TARGET=iet is invalid. Use lio or tgt'* ]]
    BLOCKATTACH_TARGET=tgt STAND_IN_PLATFORM=fedora run play 'stack pre-install'
    [ "$status" -ne 0 ]
    [[ $output == *'BLOCKATTACH_TARGET=tgt is not supported on this platform'* ]]
}

@test 'the LVM filter is set only on Debian and Ubuntu' {
    STAND_IN_PLATFORM=fedora play 'stack post-config' clean
    run grep lvm_filter "$SANDBOX"/calls/*
    [ "$status" -ne 0 ]
}
