# Shell functions for scripts that run tests; sourced.
#
#   run_stestr COMMAND [ARGUMENT...]    a command that runs stestr in the end; sets $counts to the
#                                       line "N passed, N failed, N skipped"
#   add_stestr COMMAND [ARGUMENT...]    the same; adds the counts to $passed, $failed and $skipped

# stestr's summary has one line a kind: " - Passed: 12".
counted() {
    local number
    number=$(sed -n "s/^ - $1: //p" "$log" | tail -n 1)
    echo "${number:-0}"
}

run_stestr() {
    local status passed failed skipped log
    log=$(mktemp) || return 1
    "$@" </dev/null 2>&1 | tee "$log"
    status=$?
    passed=$(($(counted Passed) + $(counted 'Expected Fail')))
    failed=$(($(counted Failed) + $(counted 'Unexpected Success')))
    skipped=$(counted Skipped)
    rm -f "$log"
    if [ $failed -gt 0 ]; then
        # The names once more, at the end of the output.
        stestr failing --list 2>/dev/null | sed 's/^/Failed: /'
    elif [ $status -ne 0 ]; then
        # A suite that could not be loaded or found has no summary, and has not passed.
        failed=1
    fi
    counts="$passed passed, $failed failed, $skipped skipped"
    return $status
}

add_stestr() {
    local status
    run_stestr "$@"
    status=$?
    [[ $counts =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+) ]]
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
    skipped=$((skipped + BASH_REMATCH[3]))
    return $status
}
