/* SPDX-License-Identifier: BSD-3-Clause */
/* An operator's words to the owner of a job's worker count: refused with nothing changed, or taken, and then said and
 * taken again the same. Whatever was taken, the target stays in its limits. */
#include "fuzz.h"
#include "hd_elastic.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	char words[HD_ELASTIC_WORDS_BYTES + 2], said[HD_ELASTIC_WORDS_BYTES + 1],
		again[HD_ELASTIC_WORDS_BYTES + 1], error[512];
	static struct hd_elastic e, before;
	bool changed;
	uint32_t n;

	if (bytes >= sizeof words)
		return 0;
	memcpy(words, data, bytes);
	words[bytes] = '\0';
	hd_elastic_init(&e);
	memcpy(&before, &e, sizeof e);
	if (hd_elastic_set(&e, words, 1, 3, error, sizeof error) < 0) {
		CHECK(memcmp((const char *)&before, (const char *)&e, sizeof e) == 0 && error[0]);
		return 0;
	}
	n = hd_elastic_decide(&e, 1, &changed);
	CHECK(n >= 1 && n >= e.common.n_min && n <= e.common.n_max);
	CHECK(hd_elastic_words(&e, said, sizeof said) == strlen(said));
	CHECK(hd_elastic_set(&e, said, 2, 3, error, sizeof error) == 0);
	CHECK(hd_elastic_words(&e, again, sizeof again) == strlen(again));
	CHECK(strcmp(said, again) == 0);
	return 0;
}
