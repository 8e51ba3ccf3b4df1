#!/bin/sh
# Runs the command $@, which downloads: up to three times, with a pause, until it succeeds.
set -u

for pause in 3 15; do
    "$@" && exit 0
    echo "Again in $pause s: $*" >&2
    sleep "$pause"
done
exec "$@"
