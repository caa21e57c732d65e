/* progress.c - rows, rate and time left on stderr. The one place that reads the
 * clock: what it says goes to stderr alone. */
#include "row/progress.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/die.h"
#include "base/opt.h"

static bool active, shown;
static int64_t rows, total;
static double began, last;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void put(const char *s)
{
	if (write(STDERR_FILENO, s, strlen(s)) < 0)
		active = false;
}

void progress_start(int64_t rows_to_come)
{
	struct stat out;

	rows = 0;
	total = rows_to_come;
	active = !opt_quiet && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO) &&
	         fstat(STDOUT_FILENO, &out) == 0 && !S_ISFIFO(out.st_mode);
	if (active)
		began = last = now();
}

static void show(double t)
{
	char line[160];
	double rate = t > began ? (double)rows / (t - began) : 0;
	int n = snprintf(line, sizeof(line), "\r\033[K%s: %" PRId64 " rows, %.0f rows/s",
	                 die_program(), rows, rate);

	if (total > rows && rate > 0 && n > 0 && (size_t)n < sizeof(line))
		snprintf(line + n, sizeof(line) - (size_t)n, ", ETA %.0f s",
		         (double)(total - rows) / rate);
	put(line);
	shown = true;
}

void progress_row(void)
{
	double t;

	rows++;
	if (!active)
		return;
	t = now();
	if (t - last < 0.2)
		return;
	last = t;
	show(t);
}

void progress_clear(void)
{
	if (shown)
		put("\r\033[K");
	shown = false;
}

void progress_end(void)
{
	if (!active)
		return;
	show(now());
	put("\n");
	shown = active = false;
}
