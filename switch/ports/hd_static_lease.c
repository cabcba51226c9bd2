/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases from a switch's file. */
#include "hd_static_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* At most 16 hexadecimal digits, as not all JSON readers have 64-bit numbers. */
static int read_token(const char *text, uint64_t *token) {
	size_t digits = strspn(text, "0123456789abcdefABCDEF");

	if (digits == 0 || digits > 16 || text[digits] != '\0')
		return -EINVAL;
	*token = strtoull(text, NULL, 16);
	return *token == 0 ? -EINVAL : 0;
}

/* "worker": for members only. */
static int read_copy(
	const json_t *item,
	json_int_t *worker,
	struct hd_switch_copy *copy,
	const struct static_words *w
) {
	const char *token, *mac, *ipv4;
	json_int_t port, udp_port;
	json_error_t where;
	int bad = worker ? json_unpack_ex(
			  (json_t *)item,
			  &where,
			  0,
			  "{s:s, s:I, s:I, s:s, s:s, s:I !}",
			  "token",
			  &token,
			  "worker",
			  worker,
			  "port",
			  &port,
			  "mac",
			  &mac,
			  "ipv4",
			  &ipv4,
			  "udp_port",
			  &udp_port
		  ) :
			   json_unpack_ex(
				   (json_t *)item,
				   &where,
				   0,
				   "{s:s, s:I, s:s, s:s, s:I !}",
				   "token",
				   &token,
				   "port",
				   &port,
				   "mac",
				   &mac,
				   "ipv4",
				   &ipv4,
				   "udp_port",
				   &udp_port
			   );

	*copy = (struct hd_switch_copy){0};
	if (bad < 0)
		return static_refuse(w, "%s", where.text);
	if (read_token(token, &copy->token) < 0)
		return static_refuse(w, "token: '%s' (up to 16 hexadecimal digits, not 0)", token);
	if (hd_static_mac(mac, copy->mac) < 0 || static_ipv4(ipv4, &copy->ipv4) < 0)
		return static_refuse(w, "mac: '%s', or ipv4: '%s'", mac, ipv4);
	if (!static_fits(port, UINT16_MAX) || !static_fits(udp_port, UINT16_MAX)
	    || (worker && !static_fits(*worker, UINT16_MAX)))
		return static_refuse(w, "port, udp_port or worker (at most %d)", UINT16_MAX);
	copy->port = (uint16_t)port;
	copy->udp_port = (uint16_t)udp_port;
	return 0;
}

static int read_members(
	const json_t *list,
	struct hd_switch_lease *lease,
	struct hd_switch_member *members,
	const struct static_words *w
) {
	size_t count = json_array_size(list);

	if (count == 0 || count > HD_SWITCH_MEMBERS_MAX)
		return static_refuse(w, "members: 1 to %d", HD_SWITCH_MEMBERS_MAX);
	for (size_t i = 0; i < count; i++) {
		json_int_t worker = 0;
		int code = read_copy(json_array_get(list, i), &worker, &members[i].copy, w);

		if (code < 0)
			return code;
		members[i].token = members[i].copy.token;
		members[i].worker = (uint16_t)worker;
	}
	lease->members = members;
	lease->member_count = (uint32_t)count;
	lease->waits = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
	return 0;
}

static int read_receivers(
	const json_t *list,
	struct hd_switch_lease *lease,
	struct hd_switch_copy *receivers,
	const struct static_words *w
) {
	size_t count = json_array_size(list);

	if (count > HD_SWITCH_RECEIVERS_MAX)
		return static_refuse(w, "receivers: at most %d", HD_SWITCH_RECEIVERS_MAX);
	for (size_t i = 0; i < count; i++) {
		int code = read_copy(json_array_get(list, i), NULL, &receivers[i], w);

		if (code < 0)
			return code;
	}
	lease->receivers = receivers;
	lease->receiver_count = (uint32_t)count;
	return 0;
}

static int read_dtype(const char *text, uint8_t *dtype) {
	if (strcmp(text, "fixed32") == 0)
		*dtype = HD_DTYPE_FIXED32;
	else if (strcmp(text, "fp32") == 0)
		*dtype = HD_DTYPE_FP32;
	else
		return -EINVAL;
	return 0;
}

struct numbers {
	json_int_t id, job, epoch, attempt, shard, count, first_slot, slots;
};

static int
fill(const struct numbers *n,
     const char *dtype,
     struct hd_switch_lease *lease,
     const struct static_words *w) {
	if (!static_fits(n->id, UINT16_MAX) || !static_fits(n->job, UINT32_MAX)
	    || !static_fits(n->epoch, UINT16_MAX) || !static_fits(n->attempt, UINT8_MAX)
	    || !static_fits(n->shard, UINT16_MAX) || !static_fits(n->count, UINT16_MAX)
	    || !static_fits(n->first_slot, UINT16_MAX) || !static_fits(n->slots, UINT16_MAX))
		return static_refuse(w, "a number is negative, or too great for its field");
	if (read_dtype(dtype, &lease->dtype) < 0)
		return static_refuse(w, "dtype: '%s' (fixed32 or fp32)", dtype);
	lease->id = (uint16_t)n->id;
	lease->job = (uint32_t)n->job;
	lease->epoch = (uint16_t)n->epoch;
	lease->attempt = (uint8_t)n->attempt;
	lease->shard = (uint16_t)n->shard;
	lease->count = (uint16_t)n->count;
	lease->first_slot = (uint16_t)n->first_slot;
	lease->slot_count = (uint16_t)n->slots;
	return 0;
}

int static_set_lease(
	const struct static_target *t,
	const json_t *item,
	const struct static_words *w
) {
	const struct hd_switch_executor *x = t->executor;
	struct hd_switch_member members[HD_SWITCH_MEMBERS_MAX];
	struct hd_switch_copy receivers[HD_SWITCH_RECEIVERS_MAX];
	struct hd_switch_lease lease = {0};
	struct numbers n = {.epoch = 1};
	const char *dtype = "fixed32";
	json_t *member_list, *receiver_list = NULL;
	json_error_t where;
	int code;

	if (json_unpack_ex(
		    (json_t *)item,
		    &where,
		    0,
		    "{s:I, s:I, s?I, s?I, s?I, s?s, s:I, s?I, s:I, s:o, s?o !}",
		    "id",
		    &n.id,
		    "job",
		    &n.job,
		    "epoch",
		    &n.epoch,
		    "attempt",
		    &n.attempt,
		    "shard",
		    &n.shard,
		    "dtype",
		    &dtype,
		    "count",
		    &n.count,
		    "first_slot",
		    &n.first_slot,
		    "slots",
		    &n.slots,
		    "members",
		    &member_list,
		    "receivers",
		    &receiver_list
	    )
	    < 0)
		return static_refuse(w, "%s", where.text);
	code = fill(&n, dtype, &lease, w);
	if (code == 0)
		code = read_members(member_list, &lease, members, w);
	if (code == 0)
		code = read_receivers(receiver_list, &lease, receivers, w);
	return code == 0 ? x->ops->lease_set(x->self, &lease, w->error, w->bytes) : code;
}
