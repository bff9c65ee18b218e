#!/bin/bash
# Run phases of the plugin as devstack does, in one shell that exits on the first error:
#
#     SANDBOX=FOLDER devstack/tests/play.bash 'stack pre-install' 'stack install' ...
#
# The calls of each phase are written to FOLDER/calls/PHASE, and to PHASE.2 if the phase is
# repeated. The enabled services are written to FOLDER/services. Variables of local.conf are read
# from the environment.
set -o errexit
: "${SANDBOX:?set SANDBOX to a writable folder}"
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
plugin=${tests%/*}

# Variables set by stackrc, local.conf and the libraries of devstack.
export DATA_DIR=$SANDBOX/data
export STACK_USER=${STACK_USER:-$(id -un)}
export SERVICE_PROTOCOL=${SERVICE_PROTOCOL:-http} SERVICE_HOST=192.0.2.10
export HOST_IP=192.0.2.10 HOST_IPV6=2001:db8::10 SERVICE_IP_VERSION=${SERVICE_IP_VERSION:-4}
export REGION_NAME=RegionOne SERVICE_TIMEOUT=60 ENABLE_DEBUG_LOG_LEVEL=True
export KEYSTONE_SERVICE_URI=$SERVICE_PROTOCOL://$SERVICE_HOST/identity
export SERVICE_PASSWORD=secret SERVICE_DOMAIN_NAME=Default SERVICE_PROJECT_NAME=service
export MEMCACHE_SERVERS=192.0.2.10:11211 SSL_BUNDLE_FILE=
export VOLUME_GROUP_NAME=stack-volumes VOLUME_BACKING_FILE_SIZE=30G
export DATABASE_TYPE=mysql
export NOVA_CONF=$SANDBOX/nova.conf TEMPEST_CONFIG=$SANDBOX/tempest.conf
export BLOCKATTACH_CONF_DIR=$SANDBOX/etc
ENABLED_SERVICES=${ENABLED_SERVICES-key,n-api,n-cpu,g-api,c-sch,c-api,c-vol,rabbit,tempest,mysql}
DISABLED_SERVICES=${DISABLED_SERVICES:-}
STAND_IN_PLATFORM=${STAND_IN_PLATFORM:-debian}
STAND_IN_DATABASE_URL=${STAND_IN_DATABASE_URL:-mysql+pymysql://root:secret@127.0.0.1/blockattach}
if [[ ,$ENABLED_SERVICES, == *,tls-proxy,* ]]; then
    SSL_BUNDLE_FILE=$SANDBOX/ca-bundle.pem
fi
export PATH=$SANDBOX/bin:$PATH

# Create a stand-in for a program that a phase installs.
make_program() {
    cat >"$SANDBOX/bin/$1"
    chmod +x "$SANDBOX/bin/$1"
}

mkdir -p "$SANDBOX/bin" "$SANDBOX/calls" "$SANDBOX/groups" "$SANDBOX/apache" "$DATA_DIR"
make_program uwsgi </dev/null
make_program blockattach-manage <<PROGRAM
#!/bin/bash
source "$tests/stand_in.bash"
record blockattach-manage "\$@"
PROGRAM
make_program python3 <<PROGRAM
#!/bin/bash
source "$tests/stand_in.bash"
record python3 "\$@"
case \$1 in
    */tempest/options.py) exec $(PATH=${PATH#*:} command -v python3) "\$@" ;;
esac
PROGRAM
export SANDBOX RECORD BLOCKATTACH_DIR=${plugin%/*}

# shellcheck source=devstack/tests/stand_in.bash
source "$tests/stand_in.bash"
# shellcheck source=devstack/override-defaults
source "$plugin/override-defaults"
# shellcheck source=devstack/settings
source "$plugin/settings"
echo "$ENABLED_SERVICES" >"$SANDBOX/services"
for phase in "$@"; do
    RECORD=$SANDBOX/calls/$phase
    [[ ! -e $RECORD ]] || RECORD+=.2
    : >"$RECORD"
    read -ra words <<<"$phase"
    # shellcheck source=devstack/plugin.sh
    source "$plugin/plugin.sh" "${words[@]}"
done
