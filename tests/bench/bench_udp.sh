#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The udp driver over an unshaped veth pair, with and without GSO and GRO, beside iperf3 with CUBIC.
# usage: bench_udp.sh BENCH_UDP
set -eu
[ "$(id -u)" = 0 ] || { echo "needs root for network namespaces"; exit 77; }
command -v iperf3 >/dev/null || { echo "needs iperf3"; exit 77; }
a=hd-bench-$$a b=hd-bench-$$b
ip netns add "$a" 2>/dev/null || { echo "needs network namespaces"; exit 77; }
trap 'ip netns del "$a"; ip netns del "$b" 2>/dev/null' EXIT
ip netns add "$b"
ip link add e0 netns "$a" type veth peer name e0 netns "$b"
ip -n "$a" addr add 10.77.0.1/24 dev e0
ip -n "$b" addr add 10.77.0.2/24 dev e0
ip -n "$a" link set e0 up
ip -n "$b" link set e0 up
for how in gso plain; do
	ip netns exec "$b" "$1" receive $how &
	receiver=$!
	sleep 0.3
	ip netns exec "$a" "$1" send $how
	wait $receiver
done
ip netns exec "$b" iperf3 -s -1 >/dev/null 2>&1 &
server=$!
sleep 0.3
ip netns exec "$a" iperf3 -C cubic -c 10.77.0.2 -t 2 -f g |
	awk '/receiver/ { print "iperf3 CUBIC received          " $7, "Gbit/s" }'
wait $server
