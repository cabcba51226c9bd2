/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ordinary frames. IPv4 to the router's address is routed by the longest prefix, with its time to live decremented; all
 * others by Ethernet's destination, or to all other ports if that is unknown.
 */
control hd_forward(inout hd_headers_t hdr, inout hd_meta_t meta) {
	bit<16> out_port;
	bit<48> out_mac;
	bit<8> found;
	bit<8> version;

	action flood() {
		found = 0;
	}

	action forward(bit<16> port) {
		found = 1;
		out_port = port;
	}

	@name(".macs") table macs {
		key = {
			hdr.ethernet.dst: exact;
		}
		actions = {
			forward;
			flood;
		}
		default_action = flood();
		size = HD_MACS_MAX;
	}

	action no_route() {
		found = 0;
	}

	action route(bit<16> port, bit<48> mac) {
		found = 1;
		out_port = port;
		out_mac = mac;
	}

	@name(".routes") table routes {
		key = {
			hdr.ipv4.dst: lpm;
		}
		actions = {
			route;
			no_route;
		}
		default_action = no_route();
		size = HD_ROUTES_MAX;
	}

	apply {
		version = 0;
		found = 0;
		out_port = 0;
		out_mac = 0;
		if (hdr.ipv4.isValid() && meta.router_mac != 0 && hdr.ethernet.dst == meta.router_mac
		    && meta.bytes >= HD_ETHERNET_BYTES + HD_IPV4_BYTES) {
			version = hdr.ipv4.version_words & 0xf0;
		}
		if (meta.bytes < HD_ETHERNET_BYTES) {
			meta.counted = HD_COUNTED_drop_no_route;
		} else if (version == 0x40) {
			if (hdr.ipv4.ttl <= 1) {
				meta.counted = HD_COUNTED_drop_ttl;
			} else {
				routes.apply();
				if (found == 0) {
					meta.counted = HD_COUNTED_drop_no_route;
				} else {
					meta.counted = HD_COUNTED_routed;
					meta.verdict = HD_VERDICT_FORWARD;
					meta.port = out_port;
					hdr.ethernet.src = meta.router_mac;
					hdr.ethernet.dst = out_mac;
					hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
					/* RFC 1624, equation 3, for a word that is 0x0100 less. */
					if (hdr.ipv4.checksum < 0xfeff) {
						hdr.ipv4.checksum = hdr.ipv4.checksum + 0x0100;
					} else {
						hdr.ipv4.checksum = hdr.ipv4.checksum + 0x0101;
					}
				}
			}
		} else {
			macs.apply();
			if (found == 0) {
				meta.counted = HD_COUNTED_flooded;
				meta.verdict = HD_VERDICT_FLOOD;
			} else if (out_port == meta.port) {
				meta.counted = HD_COUNTED_drop_no_route;
			} else {
				meta.counted = HD_COUNTED_forwarded;
				meta.verdict = HD_VERDICT_FORWARD;
				meta.port = out_port;
			}
		}
	}
}
