/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle with values on a device, beside the real server core on the loopback interface. */
#ifndef FAR_CHECK_H
#define FAR_CHECK_H

#include "hd_device.h"
#include "heddle.h"

#define FAR_VALUES 70000 /* of the model: five blocks of a stage */

struct far_scene;

/* Serves until far_scene_destroy(). */
struct far_scene *far_scene_create(struct hd_device *device);
void far_scene_destroy(struct far_scene *scene);
/* A worker of a new job of this name, with this many values, joined. The scene keeps its log's last line. */
struct heddle *far_open(struct far_scene *scene, const char *job, uint64_t values);
/* The version that the job had when it was joined. */
uint64_t far_base(struct heddle *fabric);
const char *far_log(const struct far_scene *scene);
struct hd_device *far_device(const struct far_scene *scene);

/* A push from the device gives a model the bits that the same push from the host gives it, and so does a pull: every
 * payload, copied and borrowed, scaled and not, aligned and not, weighed by its delay. */
void far_check_bits(struct far_scene *scene);
/* A pull writes after what its stream held when it was asked for, and not before. */
void far_check_pull_order(struct far_scene *scene);
/* Memory that was not borrowed may be overwritten by whatever is put into the stream next. */
void far_check_copies(struct far_scene *scene);
/* A NaN ends the push, and the log says where it is. */
void far_check_not_finite(struct far_scene *scene);
/* Memory that is none of the device's is refused at once, with words. */
void far_check_refusals(struct far_scene *scene);
/* Many pushes and pulls in flight at once, from several streams. */
void far_check_many(struct far_scene *scene);

#endif
