#!/bin/sh
# Installs the Debian packages $@ if root may do so; otherwise says what to do instead.
set -eu

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Missing here: $*. Install them (on Debian: apt-get install $*), then run this again." >&2
    exit 1
fi
echo "Installing with apt: $*"
export DEBIAN_FRONTEND=noninteractive
# What "update" could not read is missed by "install": both belong to a try.
# shellcheck disable=SC2016  # for the inner shell
"$(dirname "$0")/again.sh" sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"' apt "$@" </dev/null
