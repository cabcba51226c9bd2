/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * States of the parser, from Ethernet's header on; a target includes them in its own and begins with `ethernet`.
 *
 * Extracted headers are not checked here: classify.p4 checks the lengths. If a frame is shorter than a header, bmv2
 * leaves that header invalid, and DPDK's pipeline (which knows no lengths) reads the zeros that follow the frame.
 */
state ethernet {
	packet.extract(hdr.ethernet);
	transition select(hdr.ethernet.ether_type) {
		HD_ETHERTYPE_IPV4: ipv4;
		default: accept;
	}
}

state ipv4 {
	packet.extract(hdr.ipv4);
	transition select(hdr.ipv4.version_words) {
		HD_IPV4_FIVE_WORDS: protocol;
		default: accept;
	}
}

state protocol {
	transition select(hdr.ipv4.protocol) {
		HD_PROTOCOL_UDP: udp;
		default: accept;
	}
}

state udp {
	packet.extract(hdr.udp);
	transition select(hdr.udp.dst) {
		HD_SWITCH_UDP_PORT: ours;
		default: accept;
	}
}

state ours {
	packet.extract(hdr.prefix);
	packet.extract(hdr.chunk);
	packet.extract(hdr.lanes);
	transition accept;
}
