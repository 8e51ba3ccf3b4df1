#!/bin/sh
# Prints the Python that the development environment is made with: the first of 3.13, 3.12, 3.11 and
# python3 (3.11 or later) that works, on PATH or among pyenv's versions. With a version, as 3.14: one of that version,
# also among those that this project has made (see python_sid.py).
set -u

works() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 </dev/null
}

candidates() {
    if [ "$1" = 3 ]; then
        command -v python3
    else
        command -v "python$1"
        ls -d "${HOME:-/nonexistent}"/.pyenv/versions/"$1".*/bin/python 2>/dev/null | sort -rV
        ls -d "${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}"/django-delayed-tasks/"python$1"-*/usr/bin/"python$1" 2>/dev/null
    fi
}

first_working() {
    for candidate in $(candidates "$1"); do
        if works "$candidate"; then
            # The interpreter itself, since a version manager's shim may mean another one tomorrow.
            "$candidate" -c 'import sys; print(sys.executable)'
            return 0
        fi
    done
    return 1
}

if [ $# -gt 0 ]; then
    first_working "$1"
    exit
fi

for version in 3.13 3.12 3.11 3; do
    first_working "$version" && exit 0
done
echo "No Python 3.11 or later was found: install one, or say PYTHON=/path/to/python." >&2
exit 1
