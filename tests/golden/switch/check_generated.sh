#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: check_generated.sh PROGRAM NAME FILE The file must equal the program's output. To write it again: PROGRAM NAME
# > FILE
set -u
made=$(mktemp) || exit 1
trap 'rm -f "$made"' EXIT
"$1" "$2" > "$made" || exit 1
cmp "$made" "$3"
