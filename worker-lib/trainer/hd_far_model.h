/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gradient of fully connected layers (hd_trainer.h) on a device. Parameters and gradient stay in its memory, laid
 * out as on the host; a minibatch is copied there, and for each row two numbers come back, from which the host makes
 * the loss.
 *
 *   host    x, y copied to registered memory                       loss = mean of ln(sum) - margin
 *   stream  copy x, y | forward, softmax | rows' numbers -> event  | last layer's dW, db | ... | first layer's
 *                                                                  after each of them ready() is called
 *
 * The stages and the order of their sums are those of hd_layers.h: every device gives the same bits. The host's model
 * differs by rounding, as its BLAS adds in another order.
 *
 * Functions return 0, or -errno of hd_device.h with a text in hd_device_words().
 */
#ifndef HD_FAR_MODEL_H
#define HD_FAR_MODEL_H

#include "hd_device.h"
#include "hd_trainer.h"

struct hd_far_model;

/* `model` without rows (hd_model_by_row()), for batches of at most batch_max rows; it is used during this call only.
 * All work is put into this stream of the device. */
int hd_far_model_create(
	struct hd_device *device,
	void *stream,
	const struct hd_model *model,
	uint32_t batch_max,
	struct hd_far_model **out
);
void hd_far_model_destroy(struct hd_far_model *model);

/* As hd_model_gradient() with params and grad on the device; x and y may be any memory of the host. Returns when the
 * stream has done all of it. watch->ready() is called when the values from `first` on are final for whatever is put
 * into the stream from then on; for the first layer, too (`first` 0). */
int hd_far_model_gradient(
	struct hd_far_model *model,
	const float *params,
	const struct hd_sampler *batch,
	float *grad,
	const struct hd_model_watch *watch,
	double *loss
);

#endif
