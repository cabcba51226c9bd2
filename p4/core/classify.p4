/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is it a chunk or an answer for us? For us: UDP in an unfragmented IPv4 packet with a header of 5 words, to the
 * service address and our port, with our magic and the type CHUNK or RESULT; all others are ordinary. A packet for us
 * with a wrong version, length or count is malformed.
 */
control hd_classify(inout hd_headers_t hdr, inout hd_meta_t meta) {
	action identify(bit<32> service, bit<48> mac, bit<48> router_mac) {
		meta.service = service;
		meta.mac = mac;
		meta.router_mac = router_mac;
	}

	@name(".identity") table identity {
		actions = {
			identify;
		}
		default_action = identify(0, 0, 0);
	}

	bit<8> packet_type;
	bit<8> version;
	bit<16> fragment;
	bit<32> bytes;
	bit<32> ipv4_bytes;
	bit<32> udp_bytes;

	apply {
		meta.what = HD_WHAT_ORDINARY;
		identity.apply();
		if (hdr.prefix.isValid()) {
			fragment = hdr.ipv4.fragment & HD_IPV4_FRAGMENT;
			packet_type = hdr.prefix.version_type & 0x0f;
			if (meta.bytes >= HD_ETHERNET_BYTES + HD_IPV4_BYTES + HD_UDP_BYTES + HD_PREFIX_BYTES
			    && fragment == 0 && hdr.ipv4.dst == meta.service
			    && hdr.prefix.magic == HD_SWITCH_MAGIC) {
				if (packet_type == HD_SWITCH_TYPE_CHUNK) {
					meta.what = HD_WHAT_CHUNK;
				} else if (packet_type == HD_SWITCH_TYPE_RESULT) {
					meta.what = HD_WHAT_ANSWER;
				}
			}
		}
		if (meta.what != HD_WHAT_ORDINARY) {
			version = hdr.prefix.version_type & 0xf0;
			bytes = (bit<32>)meta.bytes;
			ipv4_bytes = (bit<32>)hdr.ipv4.length + HD_ETHERNET_BYTES;
			udp_bytes = (bit<32>)hdr.udp.length + HD_ETHERNET_BYTES + HD_IPV4_BYTES;
			if (version != HD_SWITCH_WIRE_VERSION << 4 || ipv4_bytes > bytes || udp_bytes != ipv4_bytes
			    || hdr.udp.length < HD_UDP_BYTES + HD_SWITCH_CHUNK_HEADER_BYTES) {
				meta.counted = HD_COUNTED_drop_malformed;
			} else if (meta.what == HD_WHAT_ANSWER) {
				if (hdr.udp.length != HD_UDP_BYTES + HD_SWITCH_CHUNK_HEADER_BYTES
				    || hdr.chunk.count != 0) {
					meta.counted = HD_COUNTED_drop_malformed;
				}
			} else {
				if (hdr.udp.length != HD_UDP_BYTES + HD_SWITCH_CHUNK_HEADER_BYTES + HD_LANES_BYTES
				    || hdr.chunk.count != HD_SWITCH_LANES
				    || hdr.chunk.dtype != HD_SWITCH_DTYPE_FIXED32 || hdr.chunk.round == 0) {
					meta.counted = HD_COUNTED_drop_malformed;
				}
			}
		}
	}
}
