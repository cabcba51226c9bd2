/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVIDIA's devices through the driver's own library, which is loaded at the first request: other processes need neither
 * driver nor toolkit. Contexts are the primary ones, which the CUDA runtime (torch) uses too. The driver honours
 * CUDA_VISIBLE_DEVICES and MIG slices: device numbers are those that it shows.
 */
#include "hd_device.h"
#include "hd_device_private.h"

#include <cuda.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 64
#define SHARE 20 /* a stage takes one of this many multiprocessors */

/* The code of the stages, for every device that it was compiled for (hd_device_stages.cu, hd_device_layers.cu). */
extern const unsigned char hd_device_image[], hd_layers_image[];

#define FUNCTIONS(F)                                                                               \
	F(cuInit)                                                                                  \
	F(cuGetErrorString)                                                                        \
	F(cuDeviceGet)                                                                             \
	F(cuDeviceGetName)                                                                         \
	F(cuDeviceGetAttribute)                                                                    \
	F(cuDevicePrimaryCtxRetain)                                                                \
	F(cuCtxPushCurrent)                                                                        \
	F(cuCtxPopCurrent)                                                                         \
	F(cuModuleLoadData)                                                                        \
	F(cuModuleGetFunction)                                                                     \
	F(cuMemAlloc)                                                                              \
	F(cuMemFree)                                                                               \
	F(cuMemHostAlloc)                                                                          \
	F(cuMemFreeHost)                                                                           \
	F(cuMemcpyAsync)                                                                           \
	F(cuPointerGetAttributes)                                                                  \
	F(cuStreamCreate)                                                                          \
	F(cuStreamDestroy)                                                                         \
	F(cuStreamGetCtx)                                                                          \
	F(cuStreamIsCapturing)                                                                     \
	F(cuStreamWaitEvent)                                                                       \
	F(cuEventCreate)                                                                           \
	F(cuEventDestroy)                                                                          \
	F(cuEventRecord)                                                                           \
	F(cuEventQuery)                                                                            \
	F(cuThreadExchangeStreamCaptureMode)                                                       \
	F(cuLaunchKernel)

static struct api {
#define DECLARE(name) __typeof__(&(name)) p_##name;
	FUNCTIONS(DECLARE)
#undef DECLARE
} api;

struct cuda_device {
	struct hd_device base;
	CUdevice device;
	CUcontext context;
	CUfunction stage[HD_STAGE_KINDS];
	atomic_int lost; // any thread: the CUresult that made it unusable
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_device *devices[DEVICES_MAX]; // lock
static bool loaded; // lock

/* --- the driver's library -------------------------------------------------------------------- */

/* The header renames functions to their versions (cuMemAlloc_v2): the name after renaming. */
#define TEXT(name) #name
#define NAME(name) TEXT(name)

static int resolve(void *library) {
#define RESOLVE(name)                                                                              \
	*(void **)&api.p_##name = dlsym(library, NAME(name));                                      \
	if (!api.p_##name)                                                                         \
		return hd_device_fail(-ENOTSUP, "CUDA's driver has no %s: too old", NAME(name));
	FUNCTIONS(RESOLVE)
#undef RESOLVE
	return 0;
}

static const char *result_text(CUresult result) {
	const char *text = NULL;

	return api.p_cuGetErrorString(result, &text) == CUDA_SUCCESS && text ? text : "unknown";
}

static int load(void) {
	void *library;
	CUresult result;
	int rc;

	if (loaded)
		return 0;
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return hd_device_fail(-ENOTSUP, "no CUDA driver: %s", dlerror());
	rc = resolve(library);
	if (rc < 0)
		return rc;
	result = api.p_cuInit(0);
	if (result != CUDA_SUCCESS)
		return hd_device_fail(-ENOTSUP, "CUDA's driver: %s", result_text(result));
	loaded = true;
	return 0;
}

/* --- calls ----------------------------------------------------------------------------------- */

/* A failed launch, or one that accessed a bad address: the device's contents are lost for good. */
static bool is_fatal(CUresult result) {
	return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_FAILED
		|| result == CUDA_ERROR_ECC_UNCORRECTABLE
		|| result == CUDA_ERROR_HARDWARE_STACK_ERROR
		|| result == CUDA_ERROR_ILLEGAL_INSTRUCTION
		|| result == CUDA_ERROR_MISALIGNED_ADDRESS
		|| result == CUDA_ERROR_INVALID_ADDRESS_SPACE || result == CUDA_ERROR_INVALID_PC
		|| result == CUDA_ERROR_LAUNCH_TIMEOUT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED
		|| result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_DEVICE_UNAVAILABLE
		|| result == CUDA_ERROR_NVLINK_UNCORRECTABLE || result == CUDA_ERROR_ASSERT
		|| result == CUDA_ERROR_UNKNOWN;
}

static int failed(struct cuda_device *device, CUresult result, const char *what) {
	if (result == CUDA_SUCCESS)
		return 0;
	if (is_fatal(result))
		atomic_store(&device->lost, (int)result);
	return hd_device_fail(
		result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO,
		"%s: %s: %s",
		device->base.name,
		what,
		result_text(result)
	);
}

/* This thread's mode before enter(). */
static _Thread_local CUstreamCaptureMode captures;

/* Makes the device's context current in this thread until leave(). Its calls are none of a graph's: elsewhere a graph
 * may be captured in the global mode, which forbids and is ended by many a call of any thread that does not say so. */
static int enter(struct cuda_device *device) {
	int result = atomic_load(&device->lost), rc;

	if (result != CUDA_SUCCESS)
		return failed(device, (CUresult)result, "it has failed");
	rc = failed(device, api.p_cuCtxPushCurrent(device->context), "its context");
	captures = CU_STREAM_CAPTURE_MODE_RELAXED;
	if (rc == 0)
		(void)api.p_cuThreadExchangeStreamCaptureMode(&captures);
	return rc;
}

static void leave(void) {
	CUcontext context;

	(void)api.p_cuThreadExchangeStreamCaptureMode(&captures);
	(void)api.p_cuCtxPopCurrent(&context);
}

#define CALL(base, what, call)                                                                     \
	do {                                                                                       \
		struct cuda_device *called = (struct cuda_device *)(base);                         \
		int rc = enter(called);                                                            \
                                                                                                   \
		if (rc == 0) {                                                                     \
			rc = failed(called, api.p_##call, what);                                   \
			leave();                                                                   \
		}                                                                                  \
		return rc;                                                                         \
	} while (0)

/* For clean-up: nothing could be done about an error. */
#define TRY(base, call)                                                                            \
	do {                                                                                       \
		if (enter((struct cuda_device *)(base)) == 0) {                                    \
			(void)api.p_##call;                                                        \
			leave();                                                                   \
		}                                                                                  \
	} while (0)

static int cuda_check_stream(struct hd_device *base, void *stream) {
	struct cuda_device *device = (struct cuda_device *)base;
	CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
	CUcontext context = NULL;
	CUresult result;
	int rc = enter(device);

	if (rc < 0)
		return rc;
	result = api.p_cuStreamGetCtx(stream, &context);
	if (result == CUDA_SUCCESS)
		result = api.p_cuStreamIsCapturing(stream, &capture);
	leave();
	if (result != CUDA_SUCCESS && !is_fatal(result))
		return hd_device_fail(-EINVAL, "stream: %s", result_text(result));
	if (result != CUDA_SUCCESS)
		return failed(device, result, "stream");
	if (context != device->context)
		return hd_device_fail(-EINVAL, "stream: it is not of %s", base->name);
	if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
		return hd_device_fail(-EINVAL, "stream: it is being captured into a graph");
	return 0;
}

static int cuda_allocate(struct hd_device *base, size_t bytes, void **memory) {
	struct cuda_device *device = (struct cuda_device *)base;
	void *found = NULL;
	int rc = enter(device);

	if (rc < 0)
		return rc;
	rc = failed(device, api.p_cuMemAlloc((CUdeviceptr *)(void *)&found, bytes), "memory");
	leave();
	if (rc == 0)
		*memory = found;
	return rc;
}

static void cuda_release(struct hd_device *base, void *memory) {
	TRY(base, cuMemFree((CUdeviceptr)memory));
}

static int cuda_host_allocate(struct hd_device *base, size_t bytes, void **memory) {
	const unsigned how = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
	struct cuda_device *device = (struct cuda_device *)base;
	void *found = NULL;
	int rc = enter(device);

	if (rc < 0)
		return rc;
	rc = failed(
		device, api.p_cuMemHostAlloc(&found, bytes, how), "registered memory of the host"
	);
	leave();
	if (rc == 0)
		*memory = found;
	return rc;
}

static void cuda_host_release(struct hd_device *base, void *memory) {
	TRY(base, cuMemFreeHost(memory));
}

static int cuda_stream_create(struct hd_device *base, void **stream) {
	CALL(base, "stream", cuStreamCreate((CUstream *)stream, CU_STREAM_NON_BLOCKING));
}

static void cuda_stream_destroy(struct hd_device *base, void *stream) {
	TRY(base, cuStreamDestroy(stream));
}

static int cuda_event_create(struct hd_device *base, void **event) {
	CALL(base, "event", cuEventCreate((CUevent *)event, CU_EVENT_DISABLE_TIMING));
}

static void cuda_event_destroy(struct hd_device *base, void *event) {
	TRY(base, cuEventDestroy(event));
}

static int cuda_record(struct hd_device *base, void *event, void *stream) {
	CALL(base, "event", cuEventRecord(event, stream));
}

static int cuda_after(struct hd_device *base, void *stream, void *event) {
	CALL(base, "stream", cuStreamWaitEvent(stream, event, 0));
}

static int cuda_launch(struct hd_device *base, void *stream, const struct hd_stage_job *job) {
	const struct cuda_device *device = (const struct cuda_device *)base;
	struct hd_stage_job copy = *job;
	void *argument = &copy.take; /* the same for each kind: they are a union */
	CUfunction stage = device->stage[job->kind];
	uint64_t blocks = hd_stage_job_blocks(job);
	uint32_t most = job->width ? job->width : base->width;
	uint32_t width = blocks < most ? (uint32_t)blocks : most;

	if (width == 0)
		return 0;
	CALL(base,
	     "stage",
	     cuLaunchKernel(stage, width, 1, 1, HD_STAGE_LANES, 1, 1, 0, stream, &argument, NULL));
}

/* By the device's copy engines: it takes no multiprocessor. Registered memory is copied without a wait. */
static int
cuda_copy(struct hd_device *base, void *stream, void *to, const void *from, size_t bytes) {
	if (bytes == 0)
		return 0;
	CALL(base, "copy", cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream));
}

static int cuda_done(struct hd_device *base, void *event) {
	struct cuda_device *device = (struct cuda_device *)base;
	CUresult result;
	int rc = enter(device);

	if (rc < 0)
		return rc;
	result = api.p_cuEventQuery(event);
	leave();
	return result == CUDA_SUCCESS          ? 1 :
		result == CUDA_ERROR_NOT_READY ? 0 :
						 failed(device, result, "stage");
}

static const struct hd_device_ops cuda_ops = {
	.check_stream = cuda_check_stream,
	.allocate = cuda_allocate,
	.release = cuda_release,
	.host_allocate = cuda_host_allocate,
	.host_release = cuda_host_release,
	.stream_create = cuda_stream_create,
	.stream_destroy = cuda_stream_destroy,
	.event_create = cuda_event_create,
	.event_destroy = cuda_event_destroy,
	.record = cuda_record,
	.after = cuda_after,
	.launch = cuda_launch,
	.copy = cuda_copy,
	.done = cuda_done,
};

/* --- which device ---------------------------------------------------------------------------- */

/* The stages from `first` to `last`, which one file has. */
static int load_stages(
	struct cuda_device *device,
	const unsigned char *image,
	enum hd_stage_kind first,
	enum hd_stage_kind last
) {
	static const char *const names[HD_STAGE_KINDS]
		= {"hd_take",
		   "hd_pack",
		   "hd_unpack",
		   "hd_product",
		   "hd_softmax",
		   "hd_columns",
		   "hd_axpy",
		   "hd_sgd"};
	CUmodule module = NULL;
	CUresult result = api.p_cuModuleLoadData(&module, image);

	if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_PTX
	    || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
		return hd_device_fail(
			-ENOTSUP,
			"%s: this build has no code for it: %s",
			device->base.name,
			result_text(result)
		);
	for (size_t i = first; i <= last && result == CUDA_SUCCESS; i++)
		result = api.p_cuModuleGetFunction(&device->stage[i], module, names[i]);
	return failed(device, result, "its code");
}

static int open_device(int number, struct cuda_device *device) {
	int multiprocessors = 0, rc;
	CUresult result = api.p_cuDeviceGet(&device->device, number);

	if (result == CUDA_SUCCESS)
		result = api.p_cuDeviceGetName(
			device->base.name, sizeof device->base.name, device->device
		);
	if (result == CUDA_SUCCESS)
		result = api.p_cuDeviceGetAttribute(
			&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device->device
		);
	if (result == CUDA_SUCCESS)
		result = api.p_cuDevicePrimaryCtxRetain(&device->context, device->device);
	rc = failed(device, result, "it cannot be used");
	if (rc == 0)
		rc = enter(device);
	if (rc < 0)
		return rc;
	rc = load_stages(device, hd_device_image, HD_STAGE_TAKE, HD_STAGE_UNPACK);
	if (rc == 0)
		rc = load_stages(device, hd_layers_image, HD_STAGE_PRODUCT, HD_STAGE_SGD);
	leave();
	device->base.ops = &cuda_ops;
	device->base.width = multiprocessors >= 2 * SHARE ? (uint32_t)multiprocessors / SHARE : 1;
	return rc;
}

int hd_device_cuda(int number, struct hd_device **out) {
	struct cuda_device *device = NULL;
	int rc;

	pthread_mutex_lock(&lock);
	rc = load();
	if (rc == 0 && (number < 0 || number >= DEVICES_MAX))
		rc = hd_device_fail(-ENOTSUP, "CUDA device %d: no such number", number);
	if (rc == 0 && !devices[number]) {
		device = calloc(1, sizeof *device);
		rc = device ? open_device(number, device) : hd_device_fail(-ENOMEM, "no memory");
		if (rc == 0)
			devices[number] = device;
		else
			free(device);
	}
	if (rc == 0)
		*out = &devices[number]->base;
	pthread_mutex_unlock(&lock);
	return rc;
}

int hd_cuda_find(const void *memory, size_t bytes, struct hd_device **device) {
	CUpointer_attribute asked[]
		= {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
	unsigned type = 0;
	int number = 0, rc;
	CUdeviceptr start = 0, at = (CUdeviceptr)memory;
	size_t size = 0;
	void *answers[] = {&type, &number, &start, &size};
	CUresult result;

	pthread_mutex_lock(&lock);
	rc = load();
	pthread_mutex_unlock(&lock);
	if (rc < 0)
		return rc;
	/* For memory that is not CUDA's the answers are 0. */
	result = api.p_cuPointerGetAttributes(4, asked, answers, at);
	if (result != CUDA_SUCCESS || type != CU_MEMORYTYPE_DEVICE)
		return hd_device_fail(
			-EINVAL, "%p is not memory of a CUDA device, or was freed", memory
		);
	if (size != 0 && bytes > size - (size_t)(at - start))
		return hd_device_fail(
			-EINVAL, "%zu bytes from %p reach beyond their allocation", bytes, memory
		);
	return hd_device_cuda(number, device);
}
