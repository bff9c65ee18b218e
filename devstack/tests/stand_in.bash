# shellcheck shell=bash
# Stand-ins for the functions of devstack that the plugin calls. Each appends its name and arguments
# to RECORD as one line, and has only the effects that later calls depend on. A call fails if it has
# fewer arguments than the function of devstack requires, or if no stand-in exists.
#
# Files are written only in the folder SANDBOX. In RECORD, paths are relative to this folder.

# record WORD...
record() {
    local line="${*//"$SANDBOX/"/}"
    line=${line//"$BLOCKATTACH_DIR/"/}
    # What remains is the path of the checkout itself.
    printf "%s\n" "${line//"$BLOCKATTACH_DIR"/.}" >>"$RECORD"
}

# called NUMBER NAME ARGUMENT...: Record a call that requires at least NUMBER arguments.
called() {
    local needed=$1
    shift
    if [ $# -le "$needed" ]; then
        die 0 "$1 requires $needed arguments"
    fi
    record "$@"
}

die() {
    echo "${*:2}" >&2
    exit 1
}

# ---- Services -----------------------------------------------------------------------------------

enable_service() {
    local name
    for name in "$@"; do
        [[ ,$DISABLED_SERVICES, == *,$name,* || ,$ENABLED_SERVICES, == *,$name,* ]] ||
            ENABLED_SERVICES+=,$name
    done
}

disable_service() {
    local name services=,$ENABLED_SERVICES,
    for name in "$@"; do
        services=${services//,$name,/,}
        DISABLED_SERVICES+=,$name
    done
    services=${services#,}
    ENABLED_SERVICES=${services%,}
}

# Return success if any of the services is enabled. Like devstack, call is_NAME_enabled if it
# exists, and support some families of names.
is_service_enabled() {
    local name
    for name in "$@"; do
        [[ ,$ENABLED_SERVICES, == *,$name,* ]] && return 0
        [[ $name == nova && ,$ENABLED_SERVICES == *,n-* ]] && return 0
        [[ $name == glance && ,$ENABLED_SERVICES == *,g-* ]] && return 0
        declare -F "is_${name}_enabled" >/dev/null && "is_${name}_enabled" && return 0
    done
    return 1
}

define_plugin() { :; }
echo_summary() { :; }
is_ubuntu() { [[ $STAND_IN_PLATFORM == debian ]]; }
is_fedora() { [[ $STAND_IN_PLATFORM == fedora ]]; }
get_python_exec_prefix() { echo "$SANDBOX/bin"; }

install_package() { called 1 install_package "$@"; }
setup_develop() { called 1 setup_develop "$@"; }
init_os_brick() { record init_os_brick; }

# As in devstack, do nothing if the service is not enabled.
run_process() {
    if is_service_enabled "$1"; then
        [[ $2 == /* ]] || die 0 "run_process requires an absolute path: $2"
        called 2 run_process "$@"
    fi
}

stop_process() { called 1 stop_process "$@"; }

test_with_retry() {
    called 2 test_with_retry "$@"
    [ -z "${STAND_IN_NEVER_READY:-}" ] || die 0 "$2"
}

wait_for_service() {
    called 2 wait_for_service "$@"
    [ -z "${STAND_IN_NO_ANSWER:-}" ]
}

# ---- Configuration ------------------------------------------------------------------------------

# iniset FILE SECTION OPTION VALUE: Set an option, whose value may be empty. New options are
# appended to their section, and new sections to the file.
iniset() {
    [ $# -ge 3 ] || die 0 "iniset requires a file, a section and an option: $*"
    [[ $1 == "$SANDBOX"/* ]] || die 0 "iniset outside of the sandbox: $1"
    [[ -e $1 ]] || : >"$1"
    STAND_IN_LINE="$3 = ${4:-}" awk -v section="[$2]" -v option="$3" '
        function add() { if (inside && !done) print ENVIRON["STAND_IN_LINE"]; done = done || inside }
        /^\[/ { add(); inside = $0 == section }
        inside && $1 == option && $2 == "=" { add(); next }
        { print }
        END { add(); if (!done) { print section; print ENVIRON["STAND_IN_LINE"] } }
    ' "$1" >"$1.new"
    cat "$1.new" >"$1"
    rm "$1.new"
}

configure_keystoneauth() {
    called 3 configure_keystoneauth "$@"
    iniset "$1" "$3" auth_type password
    iniset "$1" "$3" interface public
    iniset "$1" "$3" auth_url "$KEYSTONE_SERVICE_URI"
    iniset "$1" "$3" username "$2"
    iniset "$1" "$3" password "$SERVICE_PASSWORD"
    iniset "$1" "$3" user_domain_name "$SERVICE_DOMAIN_NAME"
    iniset "$1" "$3" project_name "$SERVICE_PROJECT_NAME"
    iniset "$1" "$3" project_domain_name "$SERVICE_DOMAIN_NAME"
}

# configure_keystone_authtoken_middleware FILE USER [SECTION [SERVICE_TYPE]]
configure_keystone_authtoken_middleware() {
    local section=${3:-keystone_authtoken}
    called 2 configure_keystone_authtoken_middleware "$@"
    configure_keystoneauth "$1" "$2" "$section"
    iniset "$1" "$section" www_authenticate_uri "$KEYSTONE_SERVICE_URI"
    iniset "$1" "$section" cafile "$SSL_BUNDLE_FILE"
    iniset "$1" "$section" memcached_servers "$MEMCACHE_SERVERS"
    [ -z "${4:-}" ] || iniset "$1" "$section" service_type "$4"
}

iniset_rpc_backend() {
    called 2 iniset_rpc_backend "$@"
    iniset "$2" "${3:-DEFAULT}" transport_url 'rabbit://stackrabbit:secret@192.0.2.10:5672/'
}

# write_uwsgi_config FILE APPLICATION URL ADDRESS NAME: Without an address, Apache is the proxy.
write_uwsgi_config() {
    called 4 write_uwsgi_config "$@"
    rm -f "$1"
    iniset "$1" uwsgi module "$2"
    iniset "$1" uwsgi lazy-apps true
    echo "ProxyPass $3" >>"$(apache_site_config_for "$5")"
}

remove_uwsgi_config() {
    called 2 remove_uwsgi_config "$@"
    rm -f "$1"
}

apache_site_config_for() { echo "$SANDBOX/apache/$1.conf"; }
database_connection_url() { echo "$STAND_IN_DATABASE_URL"; }
recreate_database() { called 1 recreate_database "$@"; }

# ---- Keystone: repeated calls create nothing ----------------------------------------------------

create_service_user() { called 1 create_service_user "$@"; }
get_or_create_service() { called 3 get_or_create_service "$@"; }
get_or_create_endpoint() { called 3 get_or_create_endpoint "$@"; }

# ---- LVM: one file for each volume group, with the names of its volumes -------------------------

init_lvm_volume_group() {
    called 2 init_lvm_volume_group "$@"
    : >"$SANDBOX/groups/$1"
}

# The function of devstack fails if the group does not exist.
clean_lvm_volume_group() {
    called 1 clean_lvm_volume_group "$@"
    rm "$SANDBOX/groups/$1"
}

set_lvm_filter() { record set_lvm_filter; }
clean_lvm_filter() { record clean_lvm_filter; }

# vgs GROUP
stand_in_vgs() { [[ -e $SANDBOX/groups/$1 ]]; }

# lvcreate ... --name NAME GROUP: Like LVM, fail if the volume exists or the group does not.
stand_in_lvcreate() {
    local group=$SANDBOX/groups/${!#}
    [[ -e $group ]] || return 5
    if grep -qxF -e "$*" "$group"; then
        return 5
    fi
    echo "$*" >>"$group"
}

# ---- Root ---------------------------------------------------------------------------------------

# Execute commands that change files if all files are in the sandbox. Do not change owners.
sudo() {
    local word
    local -a words=()
    record sudo "$@"
    case $1 in
        vgs | lvcreate) "stand_in_$1" "${@:2}"; return ;;
        "$SANDBOX"/*) "$@"; return ;;
        tee) cat >/dev/null; return ;;
        install) ;;
        rm) ;;
        *) return 0 ;;
    esac
    for word in "$@"; do
        case $word in
            -o | "$STACK_USER") ;;
            "$SANDBOX"/* | /dev/null) words+=("$word") ;;
            /*) return 0 ;;
            *) words+=("$word") ;;
        esac
    done
    command "${words[@]}"
}
