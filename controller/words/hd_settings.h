/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings of `set`: name, unit and help of each. The controller's table (ctl_setting.c) adds limits and effects;
 * the shell's completion and help are made from this.
 */
#ifndef HD_SETTINGS_H
#define HD_SETTINGS_H

/* set NAME VALUE */
#define HD_SETTING_THETA                                                                           \
	"theta", "",                                                                               \
		"drop an update that would delay the next one by more than this many times its own duration; off"
#define HD_SETTING_INTERVAL "interval-us", "us", "plan at most this often while requests wait"
#define HD_SETTING_HORIZON                                                                         \
	"horizon-us", "us", "grant transfers that start within this time; 0: adaptive"
#define HD_SETTING_AGEING                                                                          \
	"ageing-s", "s", "a request that has waited longer than this goes first in its job"
#define HD_SETTING_PERMILLE                                                                        \
	"drop-permille", "permille", "share of a worker's pushes that theta may drop"
#define HD_SETTING_PROBES                                                                          \
	"probe-percent", "%",                                                                      \
		"share of an idle link that probes of its bandwidth may take; off: none"
#define HD_SETTING_CREDITS                                                                         \
	"credit-bytes", "bytes",                                                                   \
		"pushes and pulls of at most this size need no request; off: all need one"
#define HD_SETTING_INLINE                                                                          \
	"inline-bytes", "bytes",                                                                   \
		"collectives of at most this size go with their requests; off: none do"
#define HD_SETTING_AGGREGATION                                                                     \
	"aggregation", "",                                                                         \
		"aggregators add up updates and relay models if that saves time: on or off"
#define HD_SETTING_SWITCH                                                                          \
	"switch", "",                                                                              \
		"all-reduces use the slots of a switch on the path if that saves time: on or off"
#define HD_SETTING_RANKED                                                                          \
	"ranked-sums", "",                                                                         \
		"aggregators add in the order of positions, so that every run has the same bits: on or off"
#define HD_SETTING_SPARE                                                                              \
	"spare-server", "",                                                                           \
		"among routes that end at most a tenth later, use the one that loads servers' links " \
		"least: on or off"
#define HD_SETTING_LEVEL "log-level", "", "error, warning, info or debug"

/* set NAME JOB VALUE */
#define HD_SETTING_TAU                                                                             \
	"tau", "updates", "plan with a stricter bound than the job's tau_max; off: the job's"
#define HD_SETTING_WEIGHT                                                                          \
	"weight", "", "weight of the job in sharing with other tenants; off: as registered"
#define HD_SETTING_DIV_MAX                                                                         \
	"div-max", "",                                                                             \
		"greatest distance of the job's replica from its server, ||w_s - w_r||; off: no limit"

#define HD_SETTINGS(S)                                                                             \
	S(HD_SETTING_THETA)                                                                        \
	S(HD_SETTING_INTERVAL)                                                                     \
	S(HD_SETTING_HORIZON)                                                                      \
	S(HD_SETTING_AGEING)                                                                       \
	S(HD_SETTING_PERMILLE)                                                                     \
	S(HD_SETTING_PROBES)                                                                       \
	S(HD_SETTING_CREDITS)                                                                      \
	S(HD_SETTING_INLINE)                                                                       \
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
