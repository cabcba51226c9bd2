#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: check_generated.sh PROGRAM NAME FILE
# The file is what the program writes. To write it anew: PROGRAM NAME > FILE
set -u
made=$(mktemp) || exit 1
trap 'rm -f "$made"' EXIT
"$1" "$2" > "$made" || exit 1
cmp "$made" "$3"
