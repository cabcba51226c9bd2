/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of the switch on the path that is the same for all targets. A target first defines:
 *   HD_REGISTER(type, cells, name)   an array of registers, initially 0
 *   HD_READ(name, into, cell), HD_WRITE(name, cell, value)
 *   HD_COUNTER_ARRAY(cells, name), HD_COUNT(name, cell)
 *   HD_ADD(name, cell, more)         only if copies are not counted as they leave
 * switch/executor/hd_switch.h describes the program's behaviour.
 */
#include "../../common/wire/hd_switch_numbers.h"

#define HD_TOKENS_MAX 17408
#define HD_MACS_MAX 4096
#define HD_ROUTES_MAX 1024

#include "lanes.p4"
#include "headers.p4"
#include "telemetry.p4"
#include "simulate.p4"
#include "classify.p4"
#include "membership.p4"
#include "cell.p4"
#include "exponent.p4"
#include "seen.p4"
#include "sums.p4"
#include "next_step.p4"
#include "forward.p4"
#include "pipeline.p4"
