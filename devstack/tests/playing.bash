# shellcheck shell=bash
# Functions shared by the tests of the plugin, which load this file.

STACK=('stack pre-install' 'stack install' 'stack post-config' 'stack extra' 'stack test-config')

setup() {
    SANDBOX=$BATS_TEST_TMPDIR/sandbox
    mkdir -p "$SANDBOX"
    unset "${!BLOCKATTACH_@}" ENABLED_SERVICES DISABLED_SERVICES
}

# play PHASE...: Run phases with the variables of the environment, as if set in local.conf.
play() {
    SANDBOX=$SANDBOX bash "$BATS_TEST_DIRNAME/play.bash" "$@"
}

# play_stack [PHASE...]: Run all phases of stack.sh, and then the given ones.
play_stack() {
    play "${STACK[@]}" "$@"
}

# calls PHASE: Compare the calls of a phase with standard input.
calls() {
    diff - "$SANDBOX/calls/$1"
}

# value FILE SECTION OPTION: Print the current value of an option.
value() {
    awk -v section="[$2]" -v option="$3" '
        /^\[/ { inside = $0 == section }
        inside && $1 == option && $2 == "=" { sub(/^[^=]*= ?/, ""); print }
    ' "$SANDBOX/$1"
}

# ready PROCESS: Print the call that waits until a process is ready.
ready() {
    echo "test_with_retry sudo bin/blockattach-status health" \
        "--file data/blockattach/health/$1 $1 is not ready 60 1"
}
