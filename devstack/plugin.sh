#!/bin/bash
# Plugin of blockattach for devstack. devstack sources this file with the phase as arguments:
#
#     source plugin.sh stack pre-install | install | post-config | extra | test-config
#     source plugin.sh unstack
#     source plugin.sh clean
#
# Each phase can be repeated: existing objects are kept or recreated, and missing ones are ignored.
_XTRACE_BLOCKATTACH=$(set +o | grep xtrace)
set +o xtrace

BLOCKATTACH_PLUGIN_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BLOCKATTACH_DIR=${BLOCKATTACH_PLUGIN_DIR%/*}
# shellcheck source=devstack/lib/storage
source "$BLOCKATTACH_PLUGIN_DIR/lib/storage"
# shellcheck source=devstack/lib/configuration
source "$BLOCKATTACH_PLUGIN_DIR/lib/configuration"
# shellcheck source=devstack/lib/services
source "$BLOCKATTACH_PLUGIN_DIR/lib/services"

if is_service_enabled blockattach; then
    case "$1 ${2:-}" in
        'stack pre-install')
            echo_summary 'Preparing the host for blockattach'
            prepare_blockattach_host
            ;;
        'stack install')
            echo_summary 'Installing blockattach'
            install_blockattach
            ;;
        'stack post-config')
            echo_summary 'Configuring blockattach'
            create_blockattach_accounts
            configure_blockattach
            configure_blockattach_consumers
            init_blockattach_database
            init_blockattach_storage
            ;;
        'stack extra')
            echo_summary 'Starting blockattach'
            start_blockattach
            create_blockattach_types
            ;;
        'stack test-config')
            if is_service_enabled tempest; then
                echo_summary 'Configuring Tempest for blockattach'
                configure_blockattach_tempest
            fi
            ;;
        'unstack ')
            stop_blockattach
            end_blockattach_targets
            ;;
        'clean ')
            clean_blockattach_storage
            clean_blockattach
            ;;
    esac
fi

$_XTRACE_BLOCKATTACH
