# Shell functions that prepare a machine for blockattach; sourced by the commands in tools.
#
#   ensure_system_packages [PROFILE...]   the packages of bindep.txt that apply
#   ensure_venv [REQUIREMENTS...]         .venv with the package (editable) and what it needs
#   ensure_test_venv                      the same, with what the tests and gates need
#   ensure_guest_kernel                   a kernel for guests, unpacked beside .venv
#   ensure_cinder_venv                    .venv-cinder with the Cinder that tests move in from
#
# Each does nothing when nothing is missing. They say what they do on standard error, in a line.

BLOCKATTACH_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BLOCKATTACH_VENV=$BLOCKATTACH_ROOT/.venv

say() {
    printf '%s\n' "$*" >&2
}

# Packages of bindep.txt without a profile of their own, and those of the profiles named.
wanted_packages() {
    local line name words word applies
    while read -r line; do
        line=${line%%#*}
        name=${line%%[[:space:]]*}
        [ -n "$name" ] || continue
        words=
        [[ $line == *\[*\]* ]] && words=${line#*\[} && words=${words%%\]*}
        applies=yes
        for word in $words; do
            case $word in
                platform:*) ;;
                *) [[ " $* " == *" $word "* ]] && { applies=yes; break; } || applies=no ;;
            esac
        done
        [ $applies = yes ] && printf '%s\n' "$name"
    done <"$BLOCKATTACH_ROOT/bindep.txt"
    return 0
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Debian starts a daemon when its package is installed. The service runs a tgtd of its own, so for
# the moment of the installation a policy says no, unless the machine has a policy already.
INSTALL_SCRIPT='
set -eu
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap "rm -f $policy" EXIT
    trap "exit 130" HUP INT TERM
    printf "#!/bin/sh\nexit 101\n" >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || echo "Failed to update the package lists" >&2
apt-get install -y -qq --no-install-recommends "$@" >/dev/null
'

install_packages() {
    local -a rights=()
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || return 1
        rights=(sudo -n)
    fi
    "${rights[@]}" sh -c "$INSTALL_SCRIPT" install "$@" </dev/null
}

# Succeeds if everything is there in the end; otherwise says exactly what is missing.
ensure_system_packages() {
    local name
    local -a wanted=() missing=()
    mapfile -t wanted < <(wanted_packages "$@")
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "Cannot check system packages on this system. Required packages: ${wanted[*]}"
        return 0
    fi
    for name in "${wanted[@]}"; do
        is_installed "$name" || missing+=("$name")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    say "Installing system packages: ${missing[*]}"
    if install_packages "${missing[@]}"; then
        return 0
    fi
    say "Failed to install system packages. Skipping what needs them. To install them, run:"
    say "    apt-get install --no-install-recommends ${missing[*]}"
    return 1
}

# The newest Python that will do, unless PYTHON names one.
find_python() {
    local name
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if command -v "$name" >/dev/null &&
                "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$name"
            return 0
        fi
    done
    say "Cannot find Python 3.11 or newer. Install Python, or set PYTHON=/path/to/python3.11"
    return 1
}

make_venv() {
    local python
    python=$(find_python) || return 1
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        ensure_system_packages venv || true
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        say "Cannot create a virtual environment: $python lacks venv. Install python3-venv, or set"
        say "PYTHON=/path/to/python3"
        return 1
    fi
    say "Creating a virtual environment in ${BLOCKATTACH_VENV##*/}"
    rm -rf "$BLOCKATTACH_VENV"
    "$python" -m venv "$BLOCKATTACH_VENV"
}

# What decides whether the environment is the right one.
environment_checksum() {
    (cd "$BLOCKATTACH_ROOT" && cat setup.cfg setup.py pyproject.toml "$@" && pwd) | sha256sum
}

# ensure_venv requirements.txt test-requirements.txt
ensure_venv() {
    local stamp log=$BLOCKATTACH_VENV/pip.log sum file
    local -a wanted=()
    # One for each set of requirements: running the tests does not undo the quickstart's.
    stamp=$BLOCKATTACH_VENV/$(printf '%s' "$*" | tr -c 'a-zA-Z0-9' '-').stamp
    sum=$(environment_checksum "$@") || return 1
    # An environment whose interpreter has gone (an upgrade, a moved folder) is made anew.
    "$BLOCKATTACH_VENV/bin/python" -c '' 2>/dev/null || make_venv || return 1
    [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ] && return 0
    for file in "$@"; do
        wanted+=(-r "$BLOCKATTACH_ROOT/$file")
    done
    # pbr takes the version from git; an unpacked archive has none.
    if ! git -C "$BLOCKATTACH_ROOT" rev-parse --git-dir >/dev/null 2>&1; then
        export PBR_VERSION=${PBR_VERSION:-0.0.0}
    fi
    say "Installing Python packages into .venv (a minute or two the first time)"
    # Most modules of these packages are never imported. The others are compiled on import.
    if ! SKIP_GENERATE_AUTHORS=1 SKIP_WRITE_GIT_CHANGELOG=1 "$BLOCKATTACH_VENV/bin/python" -m pip \
            install --disable-pip-version-check --no-compile "${wanted[@]}" -e "$BLOCKATTACH_ROOT" \
            </dev/null >"$log" 2>&1; then
        tail -n 25 "$log" >&2
        say "Failed to install Python packages. The output of pip is in .venv/pip.log"
        return 1
    fi
    printf '%s\n' "$sum" >"$stamp"
}

# Not installed: guests boot it, this machine does not.
ensure_guest_kernel() {
    local package folder=$BLOCKATTACH_VENV/guest-kernel status
    export BLOCKATTACH_GUEST_KERNEL=${BLOCKATTACH_GUEST_KERNEL:-$folder}
    [ -d "$BLOCKATTACH_GUEST_KERNEL/boot" ] && return 0
    package=$(apt-cache depends linux-image-cloud-amd64 |
        sed -n 's/^ *Depends: \(linux-image-.*\)$/\1/p' | head -n 1)
    say "Unpacking a kernel for guests: $package"
    scratch=$(mktemp -d) || return 1
    (cd "$scratch" && apt-get -qq -o APT::Sandbox::User=root download "$package" &&
        dpkg -x ./*.deb unpacked && mv unpacked "$folder")
    status=$?
    rm -rf "$scratch"
    return $status
}

# Cinder in an environment of its own, .venv-cinder: its requirements are not ours.
ensure_cinder_venv() {
    local BLOCKATTACH_VENV=$BLOCKATTACH_ROOT/.venv-cinder sum
    local wanted=$BLOCKATTACH_ROOT/tools/cinder-requirements.txt stamp=$BLOCKATTACH_VENV/stamp
    sum=$(sha256sum "$wanted") || return 1
    [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ] && return 0
    make_venv || return 1
    say "Installing Cinder into .venv-cinder"
    if ! "$BLOCKATTACH_VENV/bin/python" -m pip install --disable-pip-version-check \
            -r "$wanted" </dev/null >"$BLOCKATTACH_VENV/pip.log" 2>&1; then
        say "Failed to install Cinder, skipping what needs it. See .venv-cinder/pip.log"
        # A half of it would be taken for the whole.
        rm -f "$BLOCKATTACH_VENV/bin/cinder-manage"
        return 1
    fi
    printf '%s\n' "$sum" >"$stamp"
}

# One set for every layer: which of them ran last does not matter.
ensure_test_venv() {
    ensure_venv requirements.txt test-requirements.txt doc/requirements.txt
}
