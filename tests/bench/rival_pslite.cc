// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous SGD over ps-lite's public interface (KVWorker, KVServer): pull, compute, push, wait until it is
// applied, as heddle-train does it. One key holds the whole model, and behind its values the version that they are of.
// The role is DMLC_ROLE, as always with ps-lite; an observer is one more worker that only pulls. bench_rivals.py
// compiles it against a built ps-lite.
#include "ps/ps.h"
#include "rival_trainer.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

volatile std::sig_atomic_t stopping;

void on_signal(int) {
	stopping = 1;
}

struct Options {
	std::string model = "mlp:512,512", name = "rival", events, schedule, gate;
	uint32_t batch = 32, rank = 0, world = 1, observe_ms = 0;
	uint64_t seed = 1;
	double compute_ms = 0;
	float step[3] = {0.01f, 0.9f, 1e-4f}; // rate, momentum, weight decay
};

const option words[] = {
	{"model", 1, nullptr, 'm'}, {"batch", 1, nullptr, 'b'}, {"seed", 1, nullptr, 's'}, {"rank", 1, nullptr, 'r'},
	{"world", 1, nullptr, 'w'}, {"compute-ms", 1, nullptr, 'c'}, {"compute-schedule", 1, nullptr, 'f'},
	{"lr", 1, nullptr, 'l'}, {"momentum", 1, nullptr, 'h'}, {"weight-decay", 1, nullptr, 'd'},
	{"observe-ms", 1, nullptr, 'o'}, {"name", 1, nullptr, 'n'}, {"events", 1, nullptr, 'e'},
	{"gate", 1, nullptr, 'g'}, {nullptr, 0, nullptr, 0}};

void take(Options &o, int word) {
	switch (word) {
	case 'm': o.model = optarg; break;
	case 'n': o.name = optarg; break;
	case 'e': o.events = optarg; break;
	case 'f': o.schedule = optarg; break;
	case 'g': o.gate = optarg; break;
	case 'b': o.batch = std::strtoul(optarg, nullptr, 10); break;
	case 'r': o.rank = std::strtoul(optarg, nullptr, 10); break;
	case 'w': o.world = std::strtoul(optarg, nullptr, 10); break;
	case 'o': o.observe_ms = std::strtoul(optarg, nullptr, 10); break;
	case 's': o.seed = std::strtoull(optarg, nullptr, 10); break;
	case 'c': o.compute_ms = std::strtod(optarg, nullptr); break;
	case 'l': o.step[0] = std::strtof(optarg, nullptr); break;
	case 'h': o.step[1] = std::strtof(optarg, nullptr); break;
	case 'd': o.step[2] = std::strtof(optarg, nullptr); break;
	default: std::exit(64);
	}
}

// Everything that a process needs, opened or the end of it.
rival *open_all(const Options &o) {
	rival *r = rival_open(o.model.c_str(), o.batch, o.rank, o.world, o.seed);

	if (!r || (!o.events.empty() && rival_log(r, o.events.c_str(), o.name.c_str()) < 0)) {
		std::fprintf(stderr, "rival: %s\n", rival_error());
		std::exit(65);
	}
	return r;
}

// Says that this one is ready, and waits for all to be let go at once. Compute time counts from then on.
void pass_gate(rival *r, const Options &o) {
	if (FILE *file = std::fopen((o.gate + "/ready-" + o.name).c_str(), "w"))
		std::fclose(file);
	while (!stopping && access((o.gate + "/go").c_str(), F_OK) != 0)
		usleep(2000);
	if (rival_compute(r, o.compute_ms, o.schedule.empty() ? nullptr : o.schedule.c_str()) < 0) {
		std::fprintf(stderr, "rival: %s\n", rival_error());
		std::exit(65);
	}
}

class Server {
public:
	Server(rival *r, const Options &o) : r_(r), o_(o), values_(rival_values(r)), w_(values_), h_(values_) {
		rival_initial(r_, w_.data());
	}

	void operator()(const ps::KVMeta &meta, const ps::KVPairs<float> &data, ps::KVServer<float> *server) {
		ps::KVPairs<float> answer;

		if (meta.push)
			apply(data);
		if (meta.pull) {
			answer.keys = data.keys;
			answer.vals.resize(values_ + 1); // a copy: what leaves must not change meanwhile
			std::memcpy(answer.vals.data(), w_.data(), values_ * sizeof(float));
			answer.vals[values_] = static_cast<float>(version_);
			answer.lens = {static_cast<int>(values_ + 1)};
		}
		server->Response(meta, answer);
	}

private:
	void apply(const ps::KVPairs<float> &data) {
		CHECK_EQ(data.vals.size(), values_ + 3);
		const float *behind = data.vals.data() + values_;
		const auto base = static_cast<uint64_t>(behind[0]);

		rival_sgd(r_, w_.data(), h_.data(), data.vals.data(), o_.step);
		version_++;
		rival_event(r_, RIVAL_COMMITTED, static_cast<uint32_t>(behind[1]), static_cast<uint32_t>(behind[2]),
			    version_, version_ - base);
	}

	rival *r_;
	const Options &o_;
	const size_t values_;
	std::vector<float> w_, h_;
	uint64_t version_ = 0; // exact as a float up to 16 million
};

class Worker {
public:
	Worker(rival *r, const Options &o)
	    : r_(r), o_(o), values_(rival_values(r)), kv_(0, 0), model_(values_ + 1), update_(values_ + 3) {
		keys_ = {0};
	}

	void observe() {
		while (!stopping) {
			double accuracy, loss;

			usleep(o_.observe_ms * 1000);
			pull();
			rival_evaluate(r_, model_.data(), &accuracy, &loss);
			std::printf("{\"at_ns\": %llu, \"version\": %.0f, \"accuracy\": %.6f, \"loss\": %.6g}\n",
				    static_cast<unsigned long long>(rival_now()), model_[values_], accuracy, loss);
			std::fflush(stdout);
		}
	}

	void train() {
		for (uint32_t round = 1; !stopping; round++) {
			const uint64_t begun = (pull(), rival_now());
			const float *x;
			const uint8_t *y;

			rival_next(r_, &x, &y);
			rival_gradient(r_, model_.data(), update_.data());
			if (rival_pad(r_, begun) < 0)
				return;
			push(round);
		}
	}

private:
	void pull() {
		ps::SArray<float> into(model_.data(), model_.size());
		ps::SArray<int> lens;

		kv_.Wait(kv_.ZPull(keys_, &into, &lens));
	}

	void push(uint32_t round) {
		const ps::SArray<float> from(update_.data(), update_.size());
		const auto base = static_cast<uint64_t>(model_[values_]);

		update_[values_] = model_[values_];
		update_[values_ + 1] = static_cast<float>(o_.rank);
		update_[values_ + 2] = static_cast<float>(round);
		rival_event(r_, RIVAL_PUSHED, o_.rank, round, base, 0);
		kv_.Wait(kv_.ZPush(keys_, from, {static_cast<int>(update_.size())}));
		rival_event(r_, RIVAL_APPLIED, o_.rank, round, base, 0);
	}

	rival *r_;
	const Options &o_;
	const size_t values_;
	ps::KVWorker<float> kv_;
	ps::SArray<ps::Key> keys_;
	std::vector<float> model_, update_;
};

void wait_for_the_end() {
	while (!stopping)
		pause();
}

} // namespace

int main(int argc, char **argv) {
	Options o;
	int word;

	while ((word = getopt_long(argc, argv, "", words, nullptr)) != -1)
		take(o, word);
	struct sigaction act = {};
	act.sa_handler = on_signal;
	sigaction(SIGTERM, &act, nullptr);
	sigaction(SIGINT, &act, nullptr);
	rival *r = open_all(o);
	ps::KVServer<float> *server = nullptr;
	ps::StartAsync(0);
	if (ps::IsServer()) {
		server = new ps::KVServer<float>(0);
		server->set_request_handle(Server(r, o));
	}
	if (ps::IsWorker()) {
		Worker worker(r, o);

		ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup + ps::kServerGroup + ps::kScheduler);
		pass_gate(r, o);
		o.observe_ms ? worker.observe() : worker.train();
	} else {
		ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup + ps::kServerGroup + ps::kScheduler);
		wait_for_the_end();
	}
	rival_close(r); // ends the event log: ps-lite's own end would wait for everybody else's
	_exit(0);
}
