#!/bin/sh
# Makes the virtual environment $1 with the interpreter $2 (found when not given) and installs the project with
# everything needed to develop it. Packages that mysqlclient is compiled with are installed when they are missing
# and root may do so.
set -eu

venv=$1
scripts=$(dirname "$0")
python=${2:-$("$scripts/find_python.sh")}

has_headers() {
    "$python" -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())'
}

missing=
command -v cc >/dev/null && command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
command -v pkg-config >/dev/null || missing="$missing pkg-config"
if ! command -v pkg-config >/dev/null || ! pkg-config --exists libmariadb && ! pkg-config --exists mysqlclient; then
    missing="$missing libmariadb-dev"
fi
has_headers || missing="$missing python3-dev"
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
# shellcheck disable=SC2086  # a list of words
[ -z "$missing" ] || "$scripts/apt_install.sh" $missing

# An environment that works is kept and brought up to date: another process may be using it.
if ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    "$python" -m venv --clear "$venv"
fi
# Modules are compiled afterwards, on all cores.
"$scripts/again.sh" "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade pip
"$scripts/again.sh" "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]'
"$venv/bin/python" -m compileall -qq -j 0 "$venv/lib" || true  # some files are for other versions of Python
"$venv/bin/python" -c 'import django, sys
print("Python %d.%d.%d" % sys.version_info[:3] + ", Django " + django.__version__)'
