/* swarm.c - the player over many seeds: skill pays, episodes hold together. */
#include "base/num.h"
#include "check.h"
#include "play.h"

/* Plays tasks 0 … n-1 with every agent's skill set; sums of log2 speedup at the
 * end and after the first `early` results. */
static void play(double skill, const char *scenario, int n, int early, double *whole, double *begin)
{
	static struct arena a;

	*whole = *begin = 0;
	for (int i = 0; i < n; i++) {
		const struct episode *e = play_task(99, i, scenario, skill, &a);
		double best = e->baseline_ms, first = best;
		int results = 0;

		for (int j = 0; j < e->n_messages; j++) {
			const struct message *m = &e->messages[j];

			if (m->kind != KIND_RESULT)
				continue;
			if (m->bench.present && m->bench.ms < best)
				best = m->bench.ms;
			if (++results <= early)
				first = best;
		}
		*whole += num_log2(e->baseline_ms / best);
		*begin += num_log2(e->baseline_ms / first);
	}
}

int main(void)
{
	static const char *const scenarios[] = { "dispatch", "parallel_sweep", "pipeline",
		                                 "campaign" };

	for (int s = 0; s < 4; s++) {
		double low, low_early, mid, mid_early, high, high_early;

		play(0.15, scenarios[s], 340, 8, &low, &low_early);
		play(0.5, scenarios[s], 340, 8, &mid, &mid_early);
		play(0.9, scenarios[s], 340, 8, &high, &high_early);
		check(high > low, "%s: skill finds better kernels: log2 speedup %.3f, %.3f, %.3f",
		      scenarios[s], low / 340, mid / 340, high / 340);
		check(high_early > mid_early && mid_early > low_early,
		      "%s: and sooner: after 8 results %.3f, %.3f, %.3f", scenarios[s],
		      low_early / 340, mid_early / 340, high_early / 340);
	}
	return check_done();
}
