# shellcheck shell=bash
# What the tests of the plugin have in common; they load this file.

STACK=('stack pre-install' 'stack install' 'stack post-config' 'stack extra' 'stack test-config')

setup() {
    SANDBOX=$BATS_TEST_TMPDIR/sandbox
    mkdir -p "$SANDBOX"
    unset "${!BLOCKATTACH_@}" ENABLED_SERVICES DISABLED_SERVICES
}

# play PHASE...: with the variables of the environment, as from local.conf.
play() {
    SANDBOX=$SANDBOX bash "$BATS_TEST_DIRNAME/play.bash" "$@"
}

# play_stack [PHASE...]: all phases of stack.sh, and then these.
play_stack() {
    play "${STACK[@]}" "$@"
}

# calls PHASE: compare the calls of a phase with standard input.
calls() {
    diff - "$SANDBOX/calls/$1"
}

# value FILE SECTION OPTION: as the last play has written it.
value() {
    awk -v section="[$2]" -v option="$3" '
        /^\[/ { inside = $0 == section }
        inside && $1 == option && $2 == "=" { sub(/^[^=]*= ?/, ""); print }
    ' "$SANDBOX/$1"
}

# ready PROCESS: how it is waited for.
ready() {
    echo "test_with_retry sudo bin/blockattach-status health" \
        "--file data/blockattach/health/$1 $1 is not ready 60 1"
}
