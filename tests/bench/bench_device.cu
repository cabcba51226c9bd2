/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The speed of the stages of a GPU, compared with the machine's limits: zero-copy packing into host memory against the
 * copy engine's rate, the time until the first block's flag is seen, unpacking and FedProx's step against a copy in
 * device memory, and the slowdown of a computation on all multiprocessors by packing at the same time.
 */
extern "C" {
#include "hd_device.h"
}
#include "heddle_cuda.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#define SKIP 77
#define BYTES ((size_t)1 << 30)
#define VALUES (BYTES / sizeof(float))
#define ROUNDS 11

static struct hd_device *device;

static void check(cudaError_t error, const char *what) {
	if (error == cudaSuccess)
		return;
	(void)fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

static void must(int rc) {
	if (rc >= 0)
		return;
	(void)fprintf(stderr, "%s\n", hd_device_words());
	exit(1);
}

static double now(void) {
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double median(std::vector<double> seconds) {
	std::sort(seconds.begin(), seconds.end());
	return seconds[seconds.size() / 2];
}

/* --- to the host ------------------------------------------------------------------------------ */

struct bench {
	float *far, *far_too, *far_three; /* on the device, VALUES each */
	uint8_t *ring; /* registered memory of the host, BYTES */
	uint64_t *flags;
	struct hd_stage_sums *sums;
};

/* From the launch until the host has seen the last flag; the sink acknowledges at once. *first: the first flag. */
static double
pack(const struct bench *bench, uint8_t dtype, uint32_t width, uint64_t values, double *first) {
	static uint32_t generation;
	struct hd_stage_job job = {};
	uint64_t blocks = hd_stage_blocks(values);
	double begin;

	job.kind = HD_STAGE_PACK;
	job.width = width;
	job.pack.from = bench->far;
	job.pack.to = bench->ring;
	job.pack.values = values;
	job.pack.flags = bench->flags;
	job.pack.weight = 0.5F;
	job.pack.unit = 0x1p20F;
	job.pack.generation = ++generation;
	job.pack.dtype = dtype;
	begin = now();
	must(device->ops->launch(device, NULL, &job));
	for (uint64_t b = 0; b < blocks; b++) {
		while ((uint32_t)__atomic_load_n(&bench->flags[b], __ATOMIC_ACQUIRE) != generation)
			if (now() - begin > 30)
				exit(1);
		if (b == 0)
			*first = now() - begin;
	}
	return now() - begin;
}

static double copy_rate(const struct bench *bench, cudaMemcpyKind kind) {
	std::vector<double> seconds;

	for (int i = 0; i < ROUNDS; i++) {
		void *to = kind == cudaMemcpyDeviceToHost ? (void *)bench->ring :
							    (void *)bench->far_too;
		const void *from
			= kind == cudaMemcpyHostToDevice ? (void *)bench->ring : (void *)bench->far;
		double begin = now();

		check(cudaMemcpyAsync(to, from, BYTES, kind, 0), "copy");
		check(cudaDeviceSynchronize(), "copy");
		seconds.push_back(now() - begin);
	}
	return (kind == cudaMemcpyDeviceToDevice ? 2 : 1) * (double)BYTES / median(seconds);
}

static double pack_seconds(const struct bench *bench, uint8_t dtype, uint32_t width) {
	std::vector<double> seconds;
	double first;

	for (int i = 0; i < ROUNDS; i++)
		seconds.push_back(pack(bench, dtype, width, VALUES, &first));
	return median(seconds);
}

static void to_host(const struct bench *bench) {
	static const struct {
		const char *name;
		uint8_t dtype;
		double bytes;
	} types[]
		= {{"fp32", HD_DTYPE_FP32, 4},
		   {"fp16", HD_DTYPE_FP16, 2},
		   {"bf16", HD_DTYPE_BF16, 2},
		   {"fixed32", HD_DTYPE_FIXED32, 4}};
	const uint32_t widths[] = {1, 2, 4, device->width, 2 * device->width, 8 * device->width};
	double copied = copy_rate(bench, cudaMemcpyDeviceToHost), values32 = 0, values;

	(void
	)printf("\nPacking %zu values into registered memory of the host; the copy engine: %.1f GB/s\n",
		VALUES,
		copied * 1e-9);
	(void
	)printf("%-8s %6s %10s %8s %10s %8s\n",
		"type",
		"SMs",
		"wire GB/s",
		"of copy",
		"Gvalues/s",
		"of fp32");
	for (size_t t = 0; t < 4; t++) {
		for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
			double seconds = pack_seconds(bench, types[t].dtype, widths[w]);

			values = (double)VALUES / seconds;
			if (t == 0 && widths[w] == device->width)
				values32 = values;
			(void
			)printf("%-8s %6u %10.1f %7.0f%% %10.2f",
				types[t].name,
				widths[w],
				values * types[t].bytes * 1e-9,
				100 * values * types[t].bytes / copied,
				values * 1e-9);
			if (widths[w] == device->width)
				(void)printf(" %7.2fx", values / values32);
			(void)printf("\n");
		}
	}
}

static void first_flag(const struct bench *bench) {
	std::vector<double> firsts;
	double first;

	for (int i = 0; i < 201; i++) {
		(void)pack(bench, HD_DTYPE_BF16, 0, VALUES / 64, &first);
		check(cudaDeviceSynchronize(), "pack");
		firsts.push_back(first);
	}
	std::sort(firsts.begin(), firsts.end());
	(void
	)printf("\nFirst flag after the launch, bf16, us: %.1f / %.1f / %.1f (least, median, 99%%)\n",
		firsts[0] * 1e6,
		firsts[100] * 1e6,
		firsts[198] * 1e6);
}

/* --- within the device, and from the host ------------------------------------------------------ */

static double timed(const struct hd_stage_job *job) {
	std::vector<double> seconds;

	for (int i = 0; i < ROUNDS; i++) {
		double begin = now();

		must(device->ops->launch(device, NULL, job));
		check(cudaDeviceSynchronize(), "stage");
		seconds.push_back(now() - begin);
	}
	return median(seconds);
}

static void row(const char *name, uint32_t width, double bytes, double seconds, double beside) {
	(void
	)printf("%-34s %6u %10.1f %7.0f%%\n",
		name,
		width,
		bytes / seconds * 1e-9,
		100 * bytes / seconds / beside);
}

static void within(const struct bench *bench, uint32_t all) {
	double copied = copy_rate(bench, cudaMemcpyDeviceToDevice),
	       up = copy_rate(bench, cudaMemcpyHostToDevice);
	const uint32_t widths[] = {device->width, all, 2 * all, 4 * all};
	struct hd_stage_job unpack = {}, take = {};
	std::vector<double> seconds;

	unpack.kind = HD_STAGE_UNPACK;
	unpack.unpack.values = VALUES;
	unpack.unpack.to = bench->far_too;
	unpack.unpack.from = bench->far;
	unpack.unpack.unit = 1;
	take.kind = HD_STAGE_TAKE;
	take.take.from = bench->far;
	take.take.values = VALUES;
	take.take.sums = bench->sums;
	take.take.scale = 0.5F;
	(void
	)printf("\nIn device memory, bytes read and written; a copy: %.0f GB/s\n", copied * 1e-9);
	for (size_t w = 0; w < 4; w++) {
		unpack.width = take.width = widths[w];
		unpack.unpack.dtype = HD_DTYPE_FP32;
		row("unpack fp32", widths[w], 8.0 * VALUES, timed(&unpack), copied);
		unpack.unpack.dtype = HD_DTYPE_BF16;
		row("unpack bf16", widths[w], 6.0 * VALUES, timed(&unpack), copied);
		unpack.unpack.dtype = HD_DTYPE_FP16;
		row("unpack fp16", widths[w], 6.0 * VALUES, timed(&unpack), copied);
		take.take.copy = bench->far_too;
		row("take (scale, look, copy)", widths[w], 8.0 * VALUES, timed(&take), copied);
		take.take.copy = NULL;
		row("take (scale, look)", widths[w], 4.0 * VALUES, timed(&take), copied);
	}
	for (int i = 0; i < ROUNDS; i++) {
		double begin = now();

		if (heddle_cuda_prox_apply(
			    bench->far, bench->far_too, bench->far_three, VALUES, 0.01F, 1, NULL
		    )
		    < 0)
			exit(1);
		check(cudaDeviceSynchronize(), "prox");
		seconds.push_back(now() - begin);
	}
	row("heddle_cuda_prox_apply()", 0, 16.0 * VALUES, median(seconds), copied);
	(void
	)printf("\nFrom registered memory of the host; the copy engine: %.1f GB/s\n", up * 1e-9);
	unpack.unpack.from = bench->ring;
	for (size_t w = 0; w < 2; w++) {
		unpack.width = widths[w];
		unpack.unpack.dtype = HD_DTYPE_FP32;
		row("unpack fp32", widths[w], 4.0 * VALUES, timed(&unpack), up);
		unpack.unpack.dtype = HD_DTYPE_BF16;
		row("unpack bf16", widths[w], 2.0 * VALUES, timed(&unpack), up);
	}
}

/* --- beside a computation ---------------------------------------------------------------------- */

static __global__ void busy(float *out, int rounds) {
	float a = (float)threadIdx.x, b = 1.0001F, c = 0.5F, d = 2;

	for (int i = 0; i < rounds; i++) {
		a = a * b + c;
		b = b * 0.9999F + 0.0001F;
		c = c * b + 0.25F;
		d = d * c + a;
	}
	out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}

static double compute(const struct bench *bench, cudaStream_t stream, uint32_t all) {
	cudaEvent_t from, to;
	float ms;

	check(cudaEventCreate(&from), "event");
	check(cudaEventCreate(&to), "event");
	check(cudaEventRecord(from, stream), "event");
	busy<<<all * 64, 256, 0, stream>>>(bench->far_three, 20000);
	check(cudaEventRecord(to, stream), "event");
	check(cudaEventSynchronize(to), "compute");
	check(cudaEventElapsedTime(&ms, from, to), "compute");
	check(cudaEventDestroy(from), "event");
	check(cudaEventDestroy(to), "event");
	return ms * 1e-3;
}

/* As a training step is, in which one push of the gradient leaves. */
static void beside(const struct bench *bench, uint32_t all) {
	std::vector<double> alone, with;
	cudaStream_t stream;
	void *own;
	struct hd_stage_job job = {};

	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
	must(device->ops->stream_create(device, &own));
	job.kind = HD_STAGE_PACK;
	job.pack.from = bench->far;
	job.pack.to = bench->ring;
	job.pack.values = VALUES / 4;
	job.pack.flags = bench->flags;
	job.pack.weight = 1;
	job.pack.dtype = HD_DTYPE_BF16;
	for (int i = 0; i < ROUNDS; i++) {
		alone.push_back(compute(bench, stream, all));
		must(device->ops->launch(device, own, &job));
		with.push_back(compute(bench, stream, all));
		check(cudaDeviceSynchronize(), "beside");
	}
	(void
	)printf("\nArithmetic on all %u SMs: %.2f ms alone, %.2f ms beside %.0f MB of bf16 packed: %.1f%% slower\n",
		all,
		median(alone) * 1e3,
		median(with) * 1e3,
		VALUES / 4 * 2e-6,
		100 * (median(with) / median(alone) - 1));
	check(cudaStreamDestroy(stream), "stream");
	device->ops->stream_destroy(device, own);
}

static __global__ void fill(float *x, size_t count) {
	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		x[i] = (float)((i * 2654435761U >> 8) & 0xffff) * 1e-5F - 0.3F;
}

int main(void) {
	struct bench bench;
	void *memory;
	int all = 0;

	if (hd_device_cuda(0, &device) < 0) {
		(void)printf("SKIP: %s\n", hd_device_words());
		return SKIP;
	}
	check(cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, 0), "device");
	(void
	)printf("%s, %d SMs, of which a stage takes %u (%.1f%%)\n",
		device->name,
		all,
		device->width,
		100.0 * device->width / all);
	check(cudaMalloc((void **)&bench.far, BYTES), "memory");
	check(cudaMalloc((void **)&bench.far_too, BYTES), "memory");
	check(cudaMalloc((void **)&bench.far_three, BYTES), "memory");
	fill<<<1024, 256>>>(bench.far, VALUES);
	fill<<<1024, 256>>>(bench.far_too, VALUES);
	fill<<<1024, 256>>>(bench.far_three, VALUES);
	check(cudaDeviceSynchronize(), "fill");
	must(device->ops->host_allocate(device, BYTES, &memory));
	bench.ring = (uint8_t *)memory;
	memset(bench.ring, 1, BYTES);
	must(device->ops->host_allocate(device, hd_stage_blocks(VALUES) * sizeof(uint64_t), &memory)
	);
	bench.flags = (uint64_t *)memory;
	memset(bench.flags, 0, hd_stage_blocks(VALUES) * sizeof(uint64_t));
	must(device->ops->host_allocate(
		device, hd_stage_blocks(VALUES) * sizeof(struct hd_stage_sums), &memory
	));
	bench.sums = (struct hd_stage_sums *)memory;
	to_host(&bench);
	first_flag(&bench);
	within(&bench, (uint32_t)all);
	beside(&bench, (uint32_t)all);
	return 0;
}
