/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `set` can change: name, unit and help of each setting. The controller's table (ctl_setting.c) adds limits and
 * what to do; the shell's completion and help come from here.
 */
#ifndef HD_SETTINGS_H
#define HD_SETTINGS_H

/* set NAME VALUE */
#define HD_SETTING_THETA                                                                           \
	"theta", "",                                                                               \
		"drop an update that would delay the next one by this many of its own times; off"
#define HD_SETTING_INTERVAL "interval-us", "us", "plan at most this often while requests wait"
#define HD_SETTING_HORIZON                                                                         \
	"horizon-us", "us", "grant transfers that start within this time; 0: adaptive"
#define HD_SETTING_AGEING                                                                          \
	"ageing-s", "s", "a request that has waited for longer goes first in its job"
#define HD_SETTING_PERMILLE                                                                        \
	"drop-permille", "permille", "share of a worker's pushes that theta may drop"
#define HD_SETTING_PROBES                                                                          \
	"probe-percent", "%",                                                                      \
		"share of an idle link that probes of its bandwidth may take; off: none"
#define HD_SETTING_CREDITS                                                                         \
	"credit-bytes", "bytes",                                                                   \
		"pushes and pulls of at most this size need no request; off: all ask"
#define HD_SETTING_AGGREGATION                                                                     \
	"aggregation", "", "aggregators add updates up and relay models where that helps: on or off"
#define HD_SETTING_SWITCH                                                                          \
	"switch", "",                                                                              \
		"all-reduces go through the slots of a switch on the path where that helps: on or off"
#define HD_SETTING_RANKED                                                                          \
	"ranked-sums", "",                                                                         \
		"aggregators add in the order of positions, for the same bits in every run: on or off"
#define HD_SETTING_SPARE                                                                            \
	"spare-server", "",                                                                         \
		"of routes that end at most a tenth later, take the one that loads servers' links " \
		"least: on or off"
#define HD_SETTING_LEVEL "log-level", "", "error, warning, info or debug"

/* set NAME JOB VALUE */
#define HD_SETTING_TAU                                                                             \
	"tau", "updates", "plan with a stricter bound than the job's tau_max; off: the job's"
#define HD_SETTING_WEIGHT                                                                          \
	"weight", "", "the job's weight against other tenants' jobs; off: as it was registered"
#define HD_SETTING_DIV_MAX                                                                         \
	"div-max", "",                                                                             \
		"how far the job's replica may be from its server, ||w_s - w_r||; off: no limit"

#define HD_SETTINGS(S)                                                                             \
	S(HD_SETTING_THETA)                                                                        \
	S(HD_SETTING_INTERVAL)                                                                     \
	S(HD_SETTING_HORIZON)                                                                      \
	S(HD_SETTING_AGEING)                                                                       \
	S(HD_SETTING_PERMILLE)                                                                     \
	S(HD_SETTING_PROBES)                                                                       \
	S(HD_SETTING_CREDITS)                                                                      \
	S(HD_SETTING_AGGREGATION)                                                                  \
	S(HD_SETTING_SWITCH)                                                                       \
	S(HD_SETTING_RANKED)                                                                       \
	S(HD_SETTING_SPARE)                                                                        \
	S(HD_SETTING_LEVEL)
#define HD_JOB_SETTINGS(S)                                                                         \
	S(HD_SETTING_TAU)                                                                          \
	S(HD_SETTING_WEIGHT)                                                                       \
	S(HD_SETTING_DIV_MAX)

#define HD_SETTING_ONE(words) +1
#define HD_SETTING_COUNT (0 HD_SETTINGS(HD_SETTING_ONE) HD_JOB_SETTINGS(HD_SETTING_ONE))

#endif
