# Shell functions for the scripts of the lab; sourced.
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../tools/support/environment.sh"

# What a machine needs for guests; says what is missing.
prepare_machine() {
    if [ "$(id -u)" != 0 ]; then
        say "The lab needs root: it makes namespaces, taps and guests."
        return 1
    fi
    ensure_system_packages lab || return 1
    if ! "$BLOCKATTACH_ROOT/lab/guests/enclose" true; then
        say "The lab needs a machine that lets root make namespaces."
        return 1
    fi
}

# A virtual environment first in PATH, and this checkout first in Python's. An environment that
# is active already (tox's, a developer's) is used as it is.
prepare_python() {
    if [ -z "${VIRTUAL_ENV:-}" ]; then
        ensure_test_venv || return 1
        VIRTUAL_ENV=$BLOCKATTACH_VENV
    fi
    export VIRTUAL_ENV PATH=$VIRTUAL_ENV/bin:$PATH PYTHONPATH=$BLOCKATTACH_ROOT
}
