/*
 * pool.c - the workers.
 *
 * A worker's requests queue in its socket, two at most, so that it never waits
 * for us; the first of them is the one at work, and to it belongs the deadline.
 * When a worker dies the others are given to the next one. What it died of is
 * asked once more of a fresh worker: only a second death is the candidate's.
 */
#include "gpurun/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "gpurun/host.h"

enum { MAX_WORKERS = 64, DEPTH = 2, MAX_STARTS = 3, LOG_BYTES = 64 << 20 };

struct worker {
	pid_t pid; /* 0: unused */
	enum worker_kind kind;
	int fd;
	bool spoken;  /* has said hello */
	bool leaving; /* gets no more requests */
	double until; /* hello, or answer to the first request */
	int served;
	int n;
	struct run *queue[DEPTH];
};

static struct pool_options options;
static struct worker workers[MAX_WORKERS];
static struct run_hello hellos[WORKER_KINDS];
static bool known[WORKER_KINDS];
static int failed_starts[WORKER_KINDS];
static struct run *again[MAX_WORKERS * DEPTH]; /* to be given anew */
static int n_again, busy;
static uint64_t last_id;

static const char *const kind_names[WORKER_KINDS] = { "bench-worker", "the Triton worker" };

void pool_open(const struct pool_options *o)
{
	int fd = open(o->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd < 0)
		die_errno("cannot write '%s'", o->log);
	close(fd);
	options = *o;
}

/* --- starting and ending ------------------------------------------------------- */

static void heard(void *worker);

static void start(enum worker_kind k)
{
	struct worker *w = workers;
	char number[16], *argv[8];
	struct child child = { .argv = argv, .max_file = LOG_BYTES };
	int fd[2], n = 0;

	while (w->pid)
		w++;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd))
		die_errno("cannot make a socket pair");
	fcntl(fd[0], F_SETFD, FD_CLOEXEC);
	fcntl(fd[1], F_SETFD, FD_CLOEXEC);
	for (char **a = options.argv[k]; *a; a++)
		argv[n++] = *a;
	snprintf(number, sizeof number, "%d", fd[1]);
	argv[n++] = "--socket";
	argv[n++] = number;
	argv[n] = NULL;
	child.keep = fd[1];
	child.out = open(options.log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	/* The limit on a worker's files counts what others have printed before it. */
	if (child.out < 0 ||
	    (lseek(child.out, 0, SEEK_END) > LOG_BYTES / 2 && ftruncate(child.out, 0)))
		die_errno("cannot write '%s'", options.log);
	*w = (struct worker){ .kind = k, .fd = fd[0], .until = host_seconds() + options.start_s };
	w->pid = host_start(&child);
	close(child.out);
	close(fd[1]);
	host_watch(w->fd, heard, w);
}

static int count(enum worker_kind k, bool all)
{
	int n = 0;

	for (int i = 0; i < MAX_WORKERS; i++)
		n += workers[i].pid && workers[i].kind == k && (all || !workers[i].leaving);
	return n;
}

static void done(struct run *r, enum run_end end)
{
	r->end = end;
	busy--;
	r->done(r);
}

/* The worker is gone or going: forgets it; its wait status. */
static int bury(struct worker *w, bool kill_it)
{
	int status;

	host_forget(w->fd);
	close(w->fd);
	status = kill_it ? host_kill(w->pid) : host_wait(w->pid);
	w->pid = 0;
	return status;
}

/* Its requests but the first go back, in order, before all others. */
static void hand_back(struct worker *w, int from)
{
	int n = w->n - from;

	memmove(again + n, again, (size_t)n_again * sizeof *again);
	memcpy(again, w->queue + from, (size_t)n * sizeof *again);
	n_again += n;
	w->n = 0;
}

static const char *last_words(void)
{
	static struct buf log;
	char *line;

	buf_clear(&log);
	host_read(options.log, 2000, &log);
	while (log.len && (log.data[log.len - 1] == '\n' || log.data[log.len - 1] == ' '))
		log.data[--log.len] = '\0';
	line = log.data ? strrchr(log.data, '\n') : NULL;
	return line ? line + 1 : log.data ? log.data : "";
}

/* It ended before it said hello. */
static void no_start(struct worker *w, int status)
{
	enum worker_kind k = w->kind;

	hand_back(w, 0);
	if (++failed_starts[k] < MAX_STARTS && !(WIFEXITED(status) && WEXITSTATUS(status) == 3))
		return;
	if (k == WORKER_CUDA)
		die(EX_IO, "%s does not start: %s", kind_names[k], last_words());
	warn("%s does not start: %s", kind_names[k], last_words());
	options.argv[k][0] = NULL;
	options.missing[k] = "the worker does not start";
	for (int i = 0; i < n_again;) {
		struct run *r = again[i];

		if (r->kind != k) {
			i++;
			continue;
		}
		memmove(again + i, again + i + 1, (size_t)(--n_again - i) * sizeof *again);
		snprintf(r->text, sizeof r->text, "%s", options.missing[k]);
		done(r, END_INFRA);
	}
}

/* The worker has died (or been killed) while its first request was at work. */
static void blame(struct worker *w, enum run_end end, const char *text)
{
	struct run *r = w->n ? w->queue[0] : NULL;

	if (!r)
		return;
	if (end == END_CRASHED && !r->tries++) {
		hand_back(w, 0);
		return;
	}
	hand_back(w, 1);
	snprintf(r->text, sizeof r->text, "%s", text);
	done(r, end);
}

/* --- hearing ------------------------------------------------------------------- */

static void read_hello(struct worker *w, const struct run_hello *h, ssize_t n)
{
	if (n != (ssize_t)sizeof *h || h->protocol != RUN_PROTOCOL)
		die(EX_IO, "%s speaks another protocol: build it anew", kind_names[w->kind]);
	hellos[w->kind] = *h;
	hellos[w->kind].gpu[sizeof h->gpu - 1] = '\0';
	hellos[w->kind].driver[sizeof h->driver - 1] = '\0';
	hellos[w->kind].cuda[sizeof h->cuda - 1] = '\0';
	known[w->kind] = w->spoken = true;
	failed_starts[w->kind] = 0;
	w->until = host_seconds() + options.deadline_s;
}

/* Such a worker goes, whatever else it could still do. */
static bool fatal(const struct run_answer *a)
{
	return a->status == RUN_CRASHED || a->status == RUN_INFRA;
}

static void read_answer(struct worker *w, const struct run_answer *a, ssize_t n)
{
	struct run *r = w->queue[0];

	if (!w->n || n != (ssize_t)sizeof *a || a->id != r->request.id)
		die(EX_IO, "%s gives an answer that nobody asked for", kind_names[w->kind]);
	w->n--;
	memmove(w->queue, w->queue + 1, (size_t)w->n * sizeof *w->queue);
	w->until = host_seconds() + options.deadline_s;
	w->served++;
	r->answer = *a;
	r->answer.text[sizeof a->text - 1] = '\0';
	if (fatal(a) || w->served >= options.lifetime)
		w->leaving = true;
	if (fatal(a)) {
		hand_back(w, 0);
		bury(w, true);
	}
	/* The worker's own trouble may be that of its past: once more, elsewhere. */
	if (r->answer.status == RUN_INFRA && !r->tries++) {
		again[n_again++] = r;
		return;
	}
	snprintf(r->text, sizeof r->text, "%s", r->answer.text);
	done(r, a->status == RUN_INFRA ? END_INFRA : END_ANSWER);
}

static void heard(void *arg)
{
	struct worker *w = arg;
	union {
		struct run_hello hello;
		struct run_answer answer;
	} m;
	ssize_t n = recv(w->fd, &m, sizeof m, 0);
	char text[64];
	int status;

	if (n < 0 && errno == EINTR)
		return;
	if (n > 0) {
		if (w->spoken)
			read_answer(w, &m.answer, n);
		else
			read_hello(w, &m.hello, n);
		return;
	}
	/* Some worker processes linger after the socket is closed: see to it. */
	status = bury(w, w->spoken);
	if (!w->spoken) {
		no_start(w, status);
		return;
	}
	if (WIFSIGNALED(status))
		snprintf(text, sizeof text, "the worker died of signal %d", WTERMSIG(status));
	else
		snprintf(text, sizeof text, "the worker ended with status %d", WEXITSTATUS(status));
	blame(w, END_CRASHED, text);
}

/* --- giving ---------------------------------------------------------------------- */

static bool send_to(struct worker *w, struct run *r)
{
	/* Of the other kind none keeps the memory that it worked in. */
	for (int i = 0; options.exclusive && i < MAX_WORKERS; i++) {
		if (workers[i].pid && workers[i].kind != w->kind && workers[i].served)
			bury(&workers[i], true);
	}
	r->request.id = ++last_id;
	/* A worker that died a moment ago is heard of by the loop. */
	if (send(w->fd, &r->request, sizeof r->request, MSG_NOSIGNAL) != (ssize_t)sizeof r->request)
		return false;
	if (!w->n)
		w->until = host_seconds() + options.deadline_s;
	w->queue[w->n++] = r;
	return true;
}

/* Workers that have requests, of one kind or all. */
static int at_work(enum worker_kind k, bool all)
{
	int n = 0;

	for (int i = 0; i < MAX_WORKERS; i++)
		n += workers[i].pid && workers[i].n > 0 && (all || workers[i].kind == k);
	return n;
}

/* A worker that makes its context disturbs whoever measures. */
static bool starting(void)
{
	for (int i = 0; i < MAX_WORKERS; i++) {
		if (workers[i].pid && !workers[i].spoken)
			return true;
	}
	return false;
}

/* An idle worker may be woken. */
static bool may_wake(enum worker_kind k)
{
	return at_work(k, false) < options.active[k] &&
	       !(options.exclusive && at_work(WORKER_KINDS, true));
}

static bool wanted(enum worker_kind k)
{
	for (int i = 0; i < n_again; i++) {
		if (again[i]->kind == k)
			return true;
	}
	return false;
}

static struct worker *find(enum worker_kind k)
{
	struct worker *best = NULL;

	if (options.exclusive && starting())
		return NULL;
	for (int i = 0; i < MAX_WORKERS; i++) {
		struct worker *w = &workers[i];

		if (!w->pid || w->kind != k || !w->spoken || w->leaving || w->n == DEPTH ||
		    w->served + w->n >= options.lifetime || (!w->n && !may_wake(k)))
			continue;
		/* The least busy; of the idle ones that which has worked before. */
		if (!best || w->n < best->n || (w->n == best->n && w->served > best->served))
			best = w;
	}
	return best;
}

bool pool_has_room(enum worker_kind k)
{
	return !options.argv[k][0] || (!wanted(k) && (find(k) || !count(k, false)));
}

void pool_give(struct run *r)
{
	struct worker *w;

	r->end = END_NONE;
	r->tries = 0;
	busy++;
	if (!options.argv[r->kind][0]) {
		snprintf(r->text, sizeof r->text, "%s", options.missing[r->kind]);
		done(r, END_INFRA);
		return;
	}
	w = wanted(r->kind) ? NULL : find(r->kind);
	if (!w || !send_to(w, r))
		again[n_again++] = r;
}

double pool_tick(void)
{
	double now = host_seconds(), until = now + 3600;

	for (int i = 0; i < MAX_WORKERS; i++) {
		struct worker *w = &workers[i];

		if (!w->pid)
			continue;
		if (w->leaving && !w->n) {
			bury(w, true);
			continue;
		}
		if (w->spoken && !w->n)
			continue;
		if (now > w->until) {
			char text[64];
			bool spoken = w->spoken;

			bury(w, true);
			snprintf(text, sizeof text, "no answer within %g s", options.deadline_s);
			if (spoken)
				blame(w, END_TIMEOUT, text);
			else
				no_start(w, 0);
			continue;
		}
		if (w->until < until)
			until = w->until;
	}
	/* As many as may work, and a spare, once one has been asked for. */
	for (int k = 0; k < WORKER_KINDS; k++) {
		bool used = wanted((enum worker_kind)k) || at_work((enum worker_kind)k, false);

		if (options.exclusive && at_work(WORKER_KINDS, true))
			break;
		while (used && options.argv[k][0] &&
		       count((enum worker_kind)k, true) < MAX_WORKERS / 2 &&
		       count((enum worker_kind)k, false) < options.active[k] + (k == WORKER_CUDA))
			start((enum worker_kind)k);
	}
	for (int i = 0; i < n_again;) {
		struct run *r = again[i];
		struct worker *w = find(r->kind);

		if (!w) {
			i++;
			continue;
		}
		memmove(again + i, again + i + 1, (size_t)(--n_again - i) * sizeof *again);
		if (!send_to(w, r)) {
			again[n_again++] = r;
			break;
		}
	}
	return until;
}

int pool_busy(void)
{
	return busy;
}

const struct run_hello *pool_hello(enum worker_kind k)
{
	if (!known[k] && !options.argv[k][0])
		die(EX_IO, "%s: %s", kind_names[k], options.missing[k]);
	if (!known[k] && !count(k, false))
		start(k);
	while (!known[k]) {
		if (!count(k, true))
			start(k);
		host_poll(pool_tick());
	}
	return &hellos[k];
}

void pool_fresh(void)
{
	for (int i = 0; i < MAX_WORKERS; i++) {
		if (workers[i].pid && workers[i].served)
			bury(&workers[i], true);
	}
}

void pool_close(void)
{
	for (int i = 0; i < MAX_WORKERS; i++) {
		if (workers[i].pid)
			bury(&workers[i], true);
	}
}
