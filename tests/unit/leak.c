/*
 * leak.c - what is said and written before a result must not give it away.
 *
 * A logistic model learns whether a candidate will fail to compile or verify:
 * from its variant and parameters, from these and its text, from the tokens of
 * its source. Text must add next to nothing to the first. A source does hold
 * its own mistake, so it is asked across ops: what is learnt from the sources
 * of half of the ops must not know the others' (a give-away such as a comment
 * or a habit of the faulty would carry over).
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/num.h"
#include "check.h"
#include "episode/schema.h"
#include "play.h"

enum { EPISODES = 1000, BINS = 1 << 16, MAX_FEATURES = 1500, EPOCHS = 4 };

enum view { CONFIG, CONFIG_AND_TEXT, SOURCE };

struct sample {
	int n;
	unsigned short *feature;
	bool failed;
	bool test;
};

static struct sample *samples;
static int n_samples, cap_samples;
static unsigned short features[MAX_FEATURES];
static unsigned char seen[BINS];
static int n_features;

static void feature(const char *p, size_t n, uint64_t salt)
{
	unsigned h = (unsigned)(hash_bytes(p, n, salt) % BINS);

	if (seen[h] || n_features == MAX_FEATURES)
		return;
	seen[h] = 1;
	features[n_features++] = (unsigned short)h;
}

/* Words and signs; numbers are one token, so are ids. */
static void tokens(const char *p, uint64_t salt)
{
	while (*p) {
		const char *q = p;

		if (isalpha((unsigned char)*p) || *p == '_') {
			while (isalnum((unsigned char)*q) || *q == '_')
				q++;
			if (q - p == 4 && *p == 'c' && isdigit((unsigned char)p[1]))
				feature("#", 1, salt);
			else
				feature(p, (size_t)(q - p), salt);
		} else if (isdigit((unsigned char)*p)) {
			while (isalnum((unsigned char)*q) || *q == '.')
				q++;
			feature("#", 1, salt);
		} else {
			q++;
			if (!isspace((unsigned char)*p))
				feature(p, 1, salt);
		}
		p = q;
	}
}

static void take(const struct episode *e, const struct message *c, const struct message *result,
                 enum view view, bool test)
{
	struct sample *s;
	char text[96];

	n_features = 0;
	if (view == SOURCE) {
		tokens(c->source, 1);
	} else {
		snprintf(text, sizeof text, "%s/%s", e->task.op->name, c->variant);
		feature(text, strlen(text), 2);
		for (int i = 0; i < c->params.n; i++) {
			snprintf(text, sizeof text, "%s/%s/%s=%lld", e->task.op->name, c->variant,
			         c->params.key[i], (long long)c->params.value[i]);
			feature(text, strlen(text), 3);
		}
		if (view == CONFIG_AND_TEXT)
			tokens(c->text, 4);
	}
	for (int i = 0; i < n_features; i++)
		seen[features[i]] = 0;
	if (n_samples == cap_samples) {
		cap_samples = cap_samples ? 2 * cap_samples : 1024;
		samples = xrealloc(samples, (unsigned long)cap_samples * sizeof *samples);
	}
	s = &samples[n_samples++];
	s->n = n_features;
	s->feature = xmalloc((unsigned long)n_features * sizeof *s->feature + 1);
	memcpy(s->feature, features, (size_t)n_features * sizeof *s->feature);
	s->failed = !strcmp(result->status, word_name(OUTCOME_COMPILE_ERROR)) ||
	            !strcmp(result->status, word_name(OUTCOME_WRONG_RESULT));
	s->test = test;
}

static int by_score(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (x[0] > y[0]) - (x[0] < y[0]);
}

/* Area under the ROC curve on the test samples after training on the rest. */
static double auc(void)
{
	static double w[BINS];
	double bias = -1.5, (*scores)[2] = xmalloc((unsigned long)n_samples * sizeof *scores);
	double ranks = 0, good = 0, bad = 0;
	struct rng r = rng_make(5, "sgd");
	int n = 0;

	memset(w, 0, sizeof w);
	for (int64_t i = 0; i < (int64_t)EPOCHS * n_samples; i++) {
		const struct sample *s = &samples[rng_below(&r, (uint64_t)n_samples)];
		double z = bias, step = 0.5 / sqrt(1 + (double)i / n_samples * 4);

		if (s->test)
			continue;
		for (int f = 0; f < s->n; f++)
			z += w[s->feature[f]];
		z = (s->failed - 1 / (1 + num_exp(z > 30    ? -30
		                                  : z < -30 ? 30
		                                            : -z))) *
		    step / (8 + s->n);
		bias += z;
		for (int f = 0; f < s->n; f++)
			w[s->feature[f]] += 4 * z;
	}
	for (int i = 0; i < n_samples; i++) {
		const struct sample *s = &samples[i];
		double z = bias;

		if (!s->test)
			continue;
		for (int f = 0; f < s->n; f++)
			z += w[s->feature[f]];
		scores[n][0] = z;
		scores[n++][1] = s->failed;
	}
	qsort(scores, (size_t)n, sizeof *scores, by_score);
	for (int i = 0; i < n;) {
		int j = i;
		double failed = 0;

		for (; j < n && scores[j][0] == scores[i][0]; j++)
			failed += scores[j][1];
		ranks += failed * (i + j + 1) / 2.0; /* ties share their mean rank */
		bad += failed;
		good += j - i - failed;
		i = j;
	}
	free(scores);
	return (ranks - bad * (bad + 1) / 2) / (bad * good);
}

static double probe(enum view view, bool planted)
{
	static struct arena a;

	for (int i = 0; i < n_samples; i++)
		free(samples[i].feature);
	n_samples = 0;
	for (int i = 0; i < EPISODES; i++) {
		const struct episode *e = play_task(11, i, NULL, -1, &a);
		struct message *messages = e->messages;

		for (int m = 0; m < e->n_messages; m++) {
			if (messages[m].kind != KIND_RESULT)
				continue;
			for (int k = m - 1; k >= 0; k--) {
				struct message *cand = &messages[k];

				if (cand->kind != KIND_CANDIDATE ||
				    strcmp(cand->candidate, messages[m].candidate))
					continue;
				/* A leak on purpose: the probe must find it. */
				if (planted && !messages[m].bench.present)
					cand->text = arena_printf(&a, "%s. I hope so", cand->text);
				take(e, cand, &messages[m], view,
				     view == SOURCE ? i % 17 % 2 : i % 3 == 0);
				break;
			}
		}
	}
	return auc();
}

int main(void)
{
	double config = probe(CONFIG, false), text = probe(CONFIG_AND_TEXT, false),
	       source = probe(SOURCE, false);
	double planted = probe(CONFIG_AND_TEXT, true);

	check(text < config + 0.05,
	      "text adds little to variant and parameters: AUC %.3f after %.3f", text, config);
	check(source < 0.60, "what sources of other ops teach does not carry over: AUC %.3f",
	      source);
	check(planted > 0.75, "a planted give-away is found: AUC %.3f", planted);
	return check_done();
}
