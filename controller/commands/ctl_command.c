/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operators' commands. Each command is checked completely before it changes anything; an error names the field and its
 * limits. No command breaks an agreement between nodes: grants are not withdrawn (except by evict, which ends a node's
 * session), tau only gets stricter than the job's, and a paused or drained worker keeps its session and its requests.
 */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_commands.h"
#include "ctl_dataplane.h"
#include "ctl_elastic.h"
#include "ctl_registry.h"
#include "ctl_requests.h"
#include "hd_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct order {
	struct hd_controller *c;
	const struct hd_msg_command *m;
	struct hd_sink *sink;
	struct hd_msg_done *done;
};

/* Refuses with a text. */
__attribute__((format(printf, 2, 3))) static void wrong(struct order *o, const char *format, ...) {
	va_list args;

	o->done->reason = HD_REASON_REFUSED;
	va_start(args, format);
	(void)vsnprintf(o->done->text, sizeof o->done->text, format, args);
	va_end(args);
}

__attribute__((format(printf, 2, 3))) static void answer(struct order *o, const char *format, ...) {
	va_list args;

	va_start(args, format);
	(void)vsnprintf(o->done->text, sizeof o->done->text, format, args);
	va_end(args);
}

/* JOB, or TENANT/JOB when two tenants have a job of that name. NULL: refused. */
static struct ctl_job *find_job(struct order *o) {
	const char *slash = strchr(o->m->target, '/');
	struct ctl_job *found = NULL;

	for (uint32_t i = 0; i < o->c->job_count; i++) {
		struct ctl_job *job = o->c->jobs[i];
		size_t tenant = strlen(job->tenant_name);
		bool whole = slash && tenant == (size_t)(slash - o->m->target)
			&& memcmp(job->tenant_name, o->m->target, tenant) == 0
			&& strcmp(job->name, slash + 1) == 0;

		if (!whole && strcmp(job->name, o->m->target) != 0)
			continue;
		if (found && !whole) {
			wrong(o, "job: '%s': of several tenants: write TENANT/JOB", o->m->target);
			return NULL;
		}
		found = job;
		if (whole)
			break;
	}
	if (!found)
		wrong(o, "job: '%s': no such job (show jobs)", o->m->target);
	return found;
}

static bool object_is(const struct order *o, const char *name) {
	return strcmp(o->m->object, name) == 0;
}

/* --- settings --- */

/* False: refused. */
static bool take_number(struct order *o, const struct ctl_setting *s, double *value) {
	const char *text = o->m->value;

	if (s->on && (strcmp(text, "on") == 0 || strcmp(text, "off") == 0)) {
		*value = strcmp(text, "on") == 0;
		return true;
	}
	if (s->on) {
		wrong(o, "%s: '%s' (on or off)", s->name, text);
		return false;
	}
	if (s->off && strcmp(text, "off") == 0) {
		*value = 0;
		return true;
	}
	if (hd_text_real(text, value) && *value >= s->least && *value <= s->most
	    && (!s->whole || !text[strspn(text, "0123456789")]))
		return true;
	wrong(o,
	      "%s: '%s' (a %snumber from %.10g to %.10g%s)",
	      s->name,
	      text,
	      s->whole ? "whole " : "",
	      s->least,
	      s->most,
	      s->off ? ", or off" : "");
	return false;
}

static void set_level(struct order *o) {
	const struct hd_controller_ops *ops = o->c->config.ops;

	if (!ops || !ops->set_log_level)
		wrong(o, "log-level: this controller keeps no log");
	else if (ops->set_log_level(o->c->config.owner, o->m->value))
		wrong(o, "log-level: '%s' (error, warning, info or debug)", o->m->value);
	else {
		hd_text_copy(o->c->kept.log_level, sizeof o->c->kept.log_level, o->m->value);
		ctl_kept_changed(o->c);
		answer(o, "log-level is %s", o->m->value);
	}
}

static void set_number(struct order *o, const struct ctl_setting *s) {
	struct ctl_job *job = NULL;
	double value;

	if (s->of_a_job) {
		job = find_job(o);
		if (!job)
			return;
	} else if (o->m->target[0]) {
		wrong(o, "%s: '%s': not of a job: takes a value only", s->name, o->m->target);
		return;
	}
	if (!take_number(o, s, &value))
		return;
	/* Applied updates keep the bound of the job's description: a larger one cannot be promised. */
	if (job && s->to_tau_max && value > job->tau_max) {
		wrong(o,
		      "tau: '%s' (a whole number from 1 to the job's tau_max, %u)",
		      o->m->value,
		      job->tau_max);
		return;
	}
	s->apply(o->c, job, value);
	if (job)
		ctl_kept_changed(o->c);
	else
		ctl_kept_setting(o->c, s, value);
	o->done->affected = 1;
	answer(o, "%s%s%s is %s", s->name, job ? " of " : "", job ? job->name : "", o->m->value);
	if (o->c->pending_count)
		ctl_plan_soon(o->c);
}

static void do_set(struct order *o) {
	const struct ctl_setting *s;

	for (uint64_t i = 0; (s = ctl_setting(i)); i++) {
		if (!object_is(o, s->name))
			continue;
		if (s->apply)
			set_number(o, s);
		else
			set_level(o);
		return;
	}
	wrong(o, "setting: '%s': no such setting (show settings)", o->m->object);
}

/* --- pause and resume --- */

static void pause_job(struct order *o, bool pause) {
	struct ctl_job *job = find_job(o);

	if (!job)
		return;
	o->done->affected = job->paused != pause;
	job->paused = pause;
	ctl_kept_changed(o->c);
	answer(o,
	       "job %s %s: %u wait, %u run",
	       job->name,
	       pause ? "is paused" : "goes on",
	       job->pending,
	       job->open);
}

/* Resuming all also resumes the jobs that were paused one by one. */
static void pause_all(struct order *o, bool pause) {
	struct hd_controller *c = o->c;

	for (uint32_t i = 0; i < c->job_count; i++) {
		o->done->affected += (c->jobs[i]->paused || c->paused) != pause;
		if (!pause)
			c->jobs[i]->paused = false;
	}
	c->paused = pause;
	ctl_kept_changed(c);
	answer(o,
	       "%s: %u wait, %u run",
	       pause ? "nothing is granted any more" : "grants go on",
	       c->pending_count,
	       c->open_count);
}

static void do_pause(struct order *o) {
	bool pause = o->m->verb == HD_VERB_PAUSE;

	if (object_is(o, "all"))
		pause_all(o, pause);
	else if (object_is(o, "job"))
		pause_job(o, pause);
	else
		wrong(o, "object: '%s' (all, or job JOB)", o->m->object);
	if (!pause && o->c->pending_count)
		ctl_plan_now(o->c);
	for (uint32_t i = 0; !pause && i < o->c->job_count; i++)
		ctl_reduce_joined(o->c, o->c->jobs[i], o->sink);
}

/* --- drain --- */

static bool host_known(const struct hd_controller *c, const char *host) {
	const struct ctl_node *node;

	TAILQ_FOREACH (node, &c->nodes, entry)
		if (node->role && strcmp(node->host, host) == 0)
			return true;
	return false;
}

static void mark_nodes(struct order *o, bool draining) {
	struct ctl_node *node;

	TAILQ_FOREACH (node, &o->c->nodes, entry)
		if (node->role && strcmp(node->host, o->m->target) == 0) {
			node->draining = draining;
			o->done->affected++;
		}
}

static void drain(struct order *o) {
	struct hd_controller *c = o->c;

	if (!host_known(c, o->m->target)) {
		wrong(o, "host: '%s': no node is registered there (show nodes)", o->m->target);
		return;
	}
	if (!ctl_host_drained(c, o->m->target)) {
		if (c->drained_count == CTL_DRAINED_MAX) {
			wrong(o, "host: at most %d are drained at once", CTL_DRAINED_MAX);
			return;
		}
		hd_text_copy(c->drained[c->drained_count++], sizeof c->drained[0], o->m->target);
	}
	ctl_kept_changed(c);
	mark_nodes(o, true);
	answer(o, "host %s takes no new grants: %u nodes", o->m->target, o->done->affected);
}

static void undrain(struct order *o) {
	struct hd_controller *c = o->c;

	for (uint32_t i = 0; i < c->drained_count; i++) {
		if (strcmp(c->drained[i], o->m->target) != 0)
			continue;
		memmove(c->drained[i], c->drained[--c->drained_count], sizeof c->drained[0]);
		ctl_kept_changed(c);
		mark_nodes(o, false);
		answer(o, "host %s takes grants again: %u nodes", o->m->target, o->done->affected);
		ctl_check_by(c, c->now); /* for jobs that wait for a server */
		if (c->pending_count)
			ctl_plan_now(c);
		return;
	}
	wrong(o, "host: '%s': is not drained", o->m->target);
}

static void do_drain(struct order *o) {
	if (!object_is(o, "host"))
		wrong(o, "object: '%s' (host HOST)", o->m->object);
	else if (o->m->verb == HD_VERB_DRAIN)
		drain(o);
	else
		undrain(o);
}

/* --- evict --- */

/* Like a lost worker, but refused for good, so that the worker's process stops asking. */
static void evict_worker(struct order *o, struct ctl_node *node) {
	char text[HD_TEXT_BYTES_MAX];

	(void)snprintf(
		text,
		sizeof text,
		"worker %u of job %s: evicted by the operator",
		node->worker,
		node->job->name
	);
	ctl_node_down(o->c, node, HD_REASON_LEFT, o->sink);
	ctl_refuse(o->c, node, 0, text, o->sink);
	o->done->affected++;
}

static void evict_one(struct order *o, struct ctl_job *job) {
	struct ctl_node *node = NULL;
	uint64_t rank;

	if (!hd_text_whole(o->m->value, HD_WORKERS_MAX - 1, &rank)) {
		wrong(o, "worker: '%s' (a rank from 0 to %d)", o->m->value, HD_WORKERS_MAX - 1);
		return;
	}
	node = ctl_worker(job, (uint16_t)rank);
	if (!node) {
		wrong(o, "worker: %s of job %s is not registered", o->m->value, job->name);
		return;
	}
	evict_worker(o, node);
	answer(o, "worker %u of job %s is evicted", (unsigned)rank, job->name);
}

static void evict_job(struct order *o, struct ctl_job *job) {
	char name[sizeof job->name], server[sizeof job->server_host];
	uint32_t workers;

	hd_text_copy(name, sizeof name, job->name);
	hd_text_copy(server, sizeof server, job->server ? job->server->host : "");
	for (uint32_t i = 0; i < HD_WORKERS_MAX && job->worker_count; i++)
		if (job->workers[i])
			evict_worker(o, job->workers[i]);
	workers = o->done->affected++;
	ctl_kept_changed(o->c);
	ctl_job_evict(o->c, job, o->sink);
	answer(o,
	       "job %s has ended: %u workers are evicted, %s%s",
	       name,
	       workers,
	       server[0] ? "it leaves its server on " : "it has no server",
	       server);
}

/* A job that has ended, but would begin again where its server was. */
static bool evict_ended(struct order *o) {
	const char *slash = strchr(o->m->target, '/');
	size_t bytes = slash ? (size_t)(slash - o->m->target) : 0;
	char tenant[sizeof o->m->target] = "";

	memcpy(tenant, o->m->target, bytes);
	tenant[bytes] = '\0';
	if (!ctl_ended_forget(o->c, tenant, slash ? slash + 1 : o->m->target))
		return false;
	o->done->reason = HD_REASON_NONE;
	o->done->affected = 1;
	answer(o, "job %s had ended: it may start again on any server", o->m->target);
	return true;
}

static void do_evict(struct order *o) {
	bool one = object_is(o, "worker");
	struct ctl_job *job;

	if (!one && !object_is(o, "job")) {
		wrong(o, "object: '%s' (job JOB, or worker JOB RANK)", o->m->object);
		return;
	}
	job = find_job(o);
	if (!job) {
		if (!one)
			(void)evict_ended(o);
	} else if (one) {
		evict_one(o, job);
	} else {
		evict_job(o, job);
	}
}

/* --- the number of workers --- */

static void do_elastic(struct order *o) {
	bool set = object_is(o, "set");
	struct ctl_job *job;
	int status;

	if (!set && !object_is(o, "price")) {
		wrong(o, "object: '%s' (set JOB key=value..., or price JOB PRICE)", o->m->object);
		return;
	}
	job = find_job(o);
	if (!job)
		return;
	status
		= (set ? ctl_elastic_set : ctl_elastic_price
		)(o->c, job, o->m->value, o->sink, o->done->text, sizeof o->done->text);
	if (status < 0) {
		o->done->reason = HD_REASON_REFUSED;
		return;
	}
	o->done->affected = 1;
	answer(o,
	       "job %s: policy %s, %u workers: %s",
	       job->name,
	       job->elastic->owner.policy->name,
	       job->elastic->owner.target,
	       job->elastic->owner.reason);
}

/* --- counters --- */

static void do_clear(struct order *o) {
	if (!object_is(o, "dataplane")) {
		wrong(o, "object: '%s' (dataplane)", o->m->object);
		return;
	}
	o->done->affected = ctl_dataplane_clear(o->c);
	answer(o, "the tables of the dataplane were reset: %u nodes", o->done->affected);
}

/* --- the message --- */

static void carry_out(struct order *o) {
	switch (o->m->verb) {
	case HD_VERB_SET:
		do_set(o);
		break;
	case HD_VERB_PAUSE:
	case HD_VERB_RESUME:
		do_pause(o);
		break;
	case HD_VERB_DRAIN:
	case HD_VERB_UNDRAIN:
		do_drain(o);
		break;
	case HD_VERB_EVICT:
		do_evict(o);
		break;
	case HD_VERB_ELASTIC:
		do_elastic(o);
		break;
	case HD_VERB_CLEAR:
		do_clear(o);
		break;
	default:
		wrong(o, "verb: %u (1 to %u)", o->m->verb, HD_VERB_COUNT - 1);
	}
}

static void record(const struct order *o, struct hd_addr from) {
	char words[HD_COMMAND_BYTES], who[32];

	hd_command_words(o->m, words, sizeof words);
	(void)snprintf(
		who,
		sizeof who,
		"%u.%u.%u.%u:%u",
		from.ipv4 >> 24,
		from.ipv4 >> 16 & 255,
		from.ipv4 >> 8 & 255,
		from.ipv4 & 255,
		from.port
	);
	ctl_record(
		o->c,
		(struct hd_record){
			.kind = HD_RECORD_COMMAND,
			.what = hd_verb_name(o->m->verb),
			.reason = hd_reason_name((enum hd_reason)o->done->reason),
			.text = words,
			.detail = o->done->text,
			.who = who,
			.count = o->done->affected,
		}
	);
}

void ctl_command(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_command *m,
	struct hd_sink *sink
) {
	struct hd_message answer = {.kind = HD_MSG_DONE};
	struct order o = {.c = c, .m = m, .sink = sink, .done = &answer.done};

	answer.done.request = m->request;
	carry_out(&o);
	ctl_credits_review(c, sink);
	c->counters.commands++;
	c->counters.commands_refused += answer.done.reason != HD_REASON_NONE;
	ctl_event(
		sink,
		(struct hd_event){
			.at = c->now,
			.kind = HD_EVENT_COMMAND,
			.reason = (enum hd_reason)answer.done.reason,
			.aux = m->verb,
			.value = answer.done.affected,
		}
	);
	record(&o, hd_session_peer(node->session));
	if (c->config.ops && c->config.ops->commanded)
		c->config.ops->commanded(
			c->config.owner, hd_session_peer(node->session), m, &answer.done
		);
	ctl_send(c, node, &answer, sink);
}
