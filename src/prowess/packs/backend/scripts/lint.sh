#!/bin/sh
# Lint and type-check Python code: ruff check, ruff format --check, then basedpyright or pyright.
# Nothing is changed and nothing is installed.
#
# usage: lint.sh [--] [PATH ...]        without a path: the current folder
# exit:  0 no problems   1 problems found   2 wrong usage, or a tool failed   3 a tool is missing, no other problems
set -eu

usage() {
    echo "usage: lint.sh [--] [PATH ...]"
    echo "Runs ruff and pyright (or basedpyright), if they are installed, and reports missing tools."
}

case "${1-}" in
    -h | --help) usage; exit 0 ;;
    --) shift ;;
    -*) usage >&2; exit 2 ;;
esac
[ "$#" -gt 0 ] || set -- .
for path in "$@"; do
    if [ ! -e "$path" ]; then
        echo "lint.sh: '$path' does not exist" >&2
        exit 2
    fi
done

found=0 broken=0 missing=0

# The project's own tools come first, because the project chose their versions.
tool() {
    for place in "${VIRTUAL_ENV:+$VIRTUAL_ENV/bin}" .venv/bin venv/bin; do
        if [ -n "$place" ] && [ -x "$place/$1" ]; then
            echo "$place/$1"
            return 0
        fi
    done
    command -v "$1"
}

run() {
    label=$1
    shift
    echo "== $label"
    status=0
    "$@" || status=$?
    case $status in
        0) ;;
        1) found=1 ;;
        *)
            echo "lint.sh: $label failed with status $status" >&2
            broken=1
            ;;
    esac
}

lacks() {
    echo "lint.sh: $1 is not installed: $2" >&2
    missing=1
}

if ruff=$(tool ruff); then
    run "ruff check" "$ruff" check -- "$@"
    run "ruff format --check" "$ruff" format --check -- "$@"
else
    lacks ruff "style and common errors were not checked (uv add --dev ruff)"
fi

if checker=$(tool basedpyright) || checker=$(tool pyright); then
    run "${checker##*/}" "$checker" "$@"
else
    lacks pyright "types were not checked (uv add --dev pyright)"
fi

[ "$broken" -eq 0 ] || exit 2
[ "$found" -eq 0 ] || exit 1
[ "$missing" -eq 0 ] || exit 3
echo "lint.sh: no problems"
