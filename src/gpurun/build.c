/*
 * build.c - the compile cache and its processes.
 *
 * In the folder, KEY being the hash of all that the result depends on:
 *   KEY.so, KEY.py   the object
 *   KEY.txt          `ok|refused REGISTERS SMEM SPILL`, then the log
 *   tmp.PID.N/       a compiler at work
 */
#include "gpurun/build.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/die.h"
#include "base/hash.h"
#include "gpurun/host.h"
#include "gpurun/symbols.h"

enum { MAX_BATCH = 16, MAX_LOG = 64 * 1024, KEPT_LOG = 4000, MAX_ARGS = 48 };

struct build_work {
	char *key;
	char *source; /* until it is built */
	size_t len;
	const char *group;
	bool alone; /* a batch with it has failed */
	struct object object;
	struct build_work *next;  /* in order of asking */
	struct build_work *chain; /* of the hash table */
};

/* A running compiler. */
struct call {
	struct build_work *works[MAX_BATCH];
	int n;
	int link;  /* of a batch: 0 nvcc compiles, k links the k-th */
	pid_t pid; /* 0: unused */
	int fd;
	double until;
	bool late;
	char *folder;
	struct buf log;
};

enum { TABLE = 1 << 14 };

static struct build_options options;
static char *folder, *nvcc, *python;
static char version[32];
static bool asked_version, stopped;
static struct build_work *first, *last, *next_waiting, *table[TABLE];
static struct call *calls;
static int left, folders;

/* --- opening ----------------------------------------------------------------- */

/* What a killed bench left. */
static void sweep_folder(void)
{
	DIR *d = opendir(folder);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		struct buf path = { 0 };
		long pid;

		if (sscanf(e->d_name, "tmp.%ld.", &pid) != 1 || pid <= 0)
			continue;
		if (!kill((pid_t)pid, 0) || errno != ESRCH)
			continue;
		buf_printf(&path, "%s/%s", folder, e->d_name);
		host_remove_folder(path.data);
		buf_free(&path);
	}
	if (d)
		closedir(d);
}

void build_open(const struct build_options *o)
{
	options = *o;
	if (options.batch > MAX_BATCH)
		options.batch = MAX_BATCH;
	folder = host_folder(o->folder);
	sweep_folder();
	calls = xmalloc((unsigned long)options.jobs * sizeof *calls);
	memset(calls, 0, (size_t)options.jobs * sizeof *calls);
}

const char *build_nvcc_version(void)
{
	struct buf out = { 0 };
	char *argv[3], *v;

	if (asked_version)
		return version;
	asked_version = true;
	nvcc = host_program("nvcc", "/usr/local/cuda/bin/nvcc");
	if (!nvcc)
		return version;
	argv[0] = nvcc;
	argv[1] = "--version";
	argv[2] = NULL;
	if (!host_run(argv, &out) && (v = strstr(out.data, ", V")))
		snprintf(version, sizeof version, "%.*s", (int)strcspn(v + 3, "\n "), v + 3);
	if (!*version)
		die(EX_IO, "'%s' does not tell its version", nvcc);
	buf_free(&out);
	return version;
}

/* --- the cache --------------------------------------------------------------- */

static char *in_folder(const char *key, const char *extension)
{
	struct buf path = { 0 };

	buf_printf(&path, "%s/%s%s", folder, key, extension);
	return path.data;
}

static char *object_path(const struct build_work *w)
{
	return in_folder(w->key, w->object.mode == BUILD_PYTHON ? ".py" : ".so");
}

static bool has_object(enum build_mode m)
{
	return m == BUILD_OBJECT || m == BUILD_PYTHON;
}

static void settle(struct build_work *w, enum object_state state, const char *log)
{
	struct object *o = &w->object;

	free(o->log);
	o->log = xstrdup(log);
	o->state = state;
	if (state == OBJECT_READY && has_object(o->mode))
		o->path = object_path(w);
	if (state == OBJECT_READY && o->mode == BUILD_OBJECT)
		symbols_allowed(o->path, o->op, o->forbidden, sizeof o->forbidden);
	free(w->source);
	w->source = NULL;
	left--;
}

/* True if the cache knows it. */
static bool recall(struct build_work *w)
{
	char *path = in_folder(w->key, ".txt"), *object = object_path(w), word[16];
	struct buf text = { 0 };
	long long registers, smem, spill;
	int end = 0;
	bool known = host_read(path, MAX_LOG, &text) &&
	             sscanf(text.data, "%15s %lld %lld %lld%n", word, &registers, &smem, &spill,
	                    &end) == 4 &&
	             text.data[end] == '\n';
	bool ok = known && !strcmp(word, "ok");

	if (ok && has_object(w->object.mode) && access(object, R_OK))
		known = false;
	if (known) {
		w->object.registers = registers;
		w->object.smem_bytes = smem;
		w->object.spill_bytes = spill;
		settle(w, ok ? OBJECT_READY : OBJECT_REFUSED, text.data + end + 1);
	}
	buf_free(&text);
	free(path);
	free(object);
	return known;
}

static void keep(const struct build_work *w, bool ok, const char *log)
{
	char *path = in_folder(w->key, ".txt");
	struct buf text = { 0 };

	buf_printf(&text, "%s %lld %lld %lld\n%s", ok ? "ok" : "refused",
	           (long long)w->object.registers, (long long)w->object.smem_bytes,
	           (long long)w->object.spill_bytes, log);
	host_write(path, text.data, text.len);
	buf_free(&text);
	free(path);
}

/* Raised when the flags below change. */
static const char cache_version[] = "1";

static char *key_of(const struct build_request *r)
{
	struct buf about = { 0 };
	char a[17], b[17], *key = xmalloc(33);

	buf_printf(&about, "%s %s %s %d %s\n", cache_version, r->op, r->arch, (int)r->mode,
	           r->mode == BUILD_PYTHON ? "python" : build_nvcc_version());
	buf_add(&about, r->source, r->len);
	hash_hex(hash_bytes(about.data, about.len, 1), a);
	hash_hex(hash_bytes(about.data, about.len, 2), b);
	snprintf(key, 33, "%s%s", a, b);
	buf_free(&about);
	return key;
}

struct object *build_want(const struct build_request *r)
{
	char *key = key_of(r);
	struct build_work **slot = &table[hash_str(key) % TABLE], *w;

	for (w = *slot; w; w = w->chain) {
		if (!strcmp(w->key, key)) {
			free(key);
			return &w->object;
		}
	}
	w = xmalloc(sizeof *w);
	*w = (struct build_work){
		.key = key,
		.len = r->len,
		.group = r->group,
		.chain = *slot,
		.object = { .mode = r->mode,
		            .source_hash = hash_bytes(r->source, r->len, 0),
		            .op = r->op,
		            .arch = r->arch,
		            .log = xstrdup(""),
		            .registers = -1,
		            .smem_bytes = -1,
		            .spill_bytes = -1 },
	};
	w->object.work = w;
	*slot = w;
	if (last)
		last->next = w;
	else
		first = w;
	last = w;
	left++;
	w->source = xmalloc(r->len + 1);
	memcpy(w->source, r->source, r->len);
	w->source[r->len] = '\0';
	if (!recall(w) && !next_waiting)
		next_waiting = w;
	return &w->object;
}

bool build_done(const struct object *o)
{
	return o->state >= OBJECT_READY;
}

int build_left(void)
{
	return left;
}

void build_stop(void)
{
	stopped = true;
}

/* --- what compilers say -------------------------------------------------------- */

static bool starts(const char *p, const char *word)
{
	return !strncmp(p, word, strlen(word));
}

/* Lines of `ptxas -v`, and one that says nothing about the source. */
static bool is_report(const char *line)
{
	return starts(line, "ptxas info") || starts(line, "    ") ||
	       starts(line, "nvcc warning : The -std=c++17 flag");
}

static int64_t number_before(const char *line, const char *words)
{
	const char *p = strstr(line, words);

	while (p && p > line && p[-1] == ' ')
		p--;
	while (p && p > line && p[-1] >= '0' && p[-1] <= '9')
		p--;
	return p ? strtoll(p, NULL, 10) : -1;
}

static void raise_to(int64_t *to, int64_t x)
{
	if (x > *to)
		*to = x;
}

static void read_report(struct object *o, const char *line)
{
	const char *used = strstr(line, "Used ");

	if (used) {
		raise_to(&o->registers, number_before(line, " registers"));
		raise_to(&o->smem_bytes,
		         strstr(line, " bytes smem") ? number_before(line, " bytes smem") : 0);
	}
	if (strstr(line, "bytes spill stores"))
		raise_to(&o->spill_bytes, number_before(line, " bytes spill stores"));
}

/* Appends a line as rows may hold it: printable ASCII, no names of ours. */
static void add_line(struct buf *out, const char *line, size_t n, const char *ours)
{
	size_t skip = strlen(ours);

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)line[i];

		if (skip && n - i > skip && !memcmp(line + i, ours, skip) &&
		    line[i + skip] == '/') {
			i += skip;
			continue;
		}
		/* nvcc's own temporaries: tmpxft_<pid>_<n>-<n>_candidate.ptx */
		if (n - i > 7 && !memcmp(line + i, "tmpxft_", 7)) {
			size_t k = i + 7;

			while (k < n && strchr("0123456789abcdef-_", line[k]) &&
			       !starts(line + k, "_candidate"))
				k++;
			if (k < n && line[k] == '_') {
				i = k;
				continue;
			}
		}
		buf_char(out, c >= 0x20 && c < 0x7f ? (char)c : c == '\t' ? ' ' : '?');
	}
	buf_char(out, '\n');
}

/* A compiler's output [p, p + n): facts into o, words into out. */
static void read_log(struct object *o, const char *p, size_t n, const char *ours, struct buf *out)
{
	const char *end = p + n;

	buf_reserve(out, 0);
	while (p < end) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		size_t k = (size_t)((eol ? eol : end) - p);
		char *line = xmalloc(k + 1);

		memcpy(line, p, k);
		line[k] = '\0';
		if (starts(line, "ptxas info") || strstr(line, "bytes spill stores"))
			read_report(o, line);
		else if (out->len < KEPT_LOG && (out->len || k) && !is_report(line))
			add_line(out, line, k, ours);
		free(line);
		p += k + 1;
	}
	while (out->len && out->data[out->len - 1] == '\n')
		out->data[--out->len] = '\0';
}

bool build_first_error(const struct object *o, int *line, const char **words, int *len)
{
	const char *found = NULL;

	for (const char *p = o->log; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		int end = 0;

		if (o->mode == BUILD_PYTHON) {
			/* Place, the line and a caret, then the error by its class. */
			if (sscanf(p, " File \"candidate.py\", line %d", line) == 1)
				found = p;
			if (!found || *p == ' ')
				continue;
			*words = p;
		} else {
			if (sscanf(p, "candidate.cu(%d): error: %n", line, &end) != 1 || !end)
				continue;
			*words = p + end;
		}
		*len = (int)strcspn(*words, "\n");
		return true;
	}
	return false;
}

bool build_lacks_feature(const struct object *o)
{
	bool lacks = false;

	for (const char *p = o->log; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		struct buf line = { 0 };
		bool ptxas, about;

		buf_add(&line, p, strcspn(p, "\n"));
		buf_reserve(&line, 0);
		ptxas = starts(line.data, "ptxas");
		about = strstr(line.data, "not supported on .target") ||
		        (strstr(line.data, "requires") && strstr(line.data, ".target"));
		if (strstr(line.data, "error") &&
		    !(ptxas && (about || strstr(line.data, "fatal")))) {
			buf_free(&line);
			return false;
		}
		lacks |= about;
		buf_free(&line);
	}
	return lacks;
}

/* Whether a failed compiler failed by the source. */
static bool is_refusal(const struct object *o, int status, const char *log)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 127)
		return false;
	if (o->mode == BUILD_PYTHON)
		return WEXITSTATUS(status) == 1 && strstr(log, "line ");
	return strstr(log, "error") && !strstr(log, "Killed") && !strstr(log, "No space left") &&
	       !strstr(log, "annot allocate memory") && !strstr(log, "out of memory");
}

/* --- calls ------------------------------------------------------------------- */

/* Prints what the interpreter would say of the file. */
static const char parse_python[] =
	"import sys\n"
	"try:\n"
	"    compile(open('candidate.py', encoding='utf-8').read(), 'candidate.py', 'exec')\n"
	"except (SyntaxError, ValueError) as e:\n"
	"    print('  File \"candidate.py\", line %d' % (getattr(e, 'lineno', 0) or 0))\n"
	"    print('%s: %s' % (type(e).__name__, getattr(e, 'msg', e)))\n"
	"    sys.exit(1)\n";

static void gencode(const char *arch, char *out, size_t n)
{
	snprintf(out, n, "-gencode=arch=compute_%s,code=%s", arch + 3, arch);
}

static const char *source_name(const struct call *c, int i, char out[32])
{
	if (c->works[0]->object.mode == BUILD_PYTHON)
		return "candidate.py";
	if (c->n == 1)
		return "candidate.cu";
	snprintf(out, 32, "candidate%d.cu", i);
	return out;
}

static void run(struct call *c, char **argv)
{
	struct child child = { .argv = argv, .dir = c->folder, .keep = -1 };
	int fd[2];

	host_pipe(fd);
	child.out = fd[1];
	c->pid = host_start(&child);
	close(fd[1]);
	c->fd = fd[0];
	c->late = false;
	c->until = host_seconds() + options.deadline_s * c->n;
}

static void ended(void *call);

/* Starts the call's next command. */
static void command(struct call *c)
{
	const struct object *o = &c->works[0]->object;
	char code[64], arch[32], names[MAX_BATCH][32], source[MAX_BATCH][32], object[32];
	char *argv[MAX_ARGS];
	int n = 0;

	gencode(o->arch, code, sizeof code);
	snprintf(arch, sizeof arch, "-arch=%s", o->arch);
	if (o->mode == BUILD_PYTHON) {
		argv[n++] = python;
		argv[n++] = "-c";
		argv[n++] = (char *)(uintptr_t)parse_python;
	} else if (c->link) {
		snprintf(source[0], sizeof source[0], "candidate%d.o", c->link - 1);
		snprintf(object, sizeof object, "candidate%d.so", c->link - 1);
		argv[n++] = nvcc;
		argv[n++] = code;
		argv[n++] = "-shared";
		argv[n++] = "-nodlink";
		argv[n++] = "-cudart";
		argv[n++] = "shared";
		argv[n++] = "-lcuda";
		argv[n++] = source[0];
		argv[n++] = "-o";
		argv[n++] = object;
	} else {
		argv[n++] = nvcc;
		argv[n++] = "-std=c++17";
		if (o->mode == BUILD_FRONT) {
			argv[n++] = arch;
			argv[n++] = "--cuda";
			argv[n++] = "-o";
			argv[n++] = "candidate.ii";
		} else {
			argv[n++] = "-O3";
			argv[n++] = code;
			argv[n++] = "-Xcompiler";
			argv[n++] = "-fPIC,-fno-gnu-unique";
			argv[n++] = "-Xptxas";
			argv[n++] = "-v";
			argv[n++] = o->mode == BUILD_CODE ? "-fatbin"
			            : c->n == 1           ? "-shared"
			                                  : "-c";
		}
		if (o->mode == BUILD_CODE || (o->mode == BUILD_OBJECT && c->n == 1)) {
			argv[n++] = "-o";
			argv[n++] = o->mode == BUILD_CODE ? "candidate.fatbin" : "candidate.so";
		}
		if (o->mode == BUILD_OBJECT && c->n == 1) {
			argv[n++] = "-nodlink";
			argv[n++] = "-cudart";
			argv[n++] = "shared";
			argv[n++] = "-lcuda";
		}
		for (int i = 0; i < c->n; i++)
			argv[n++] = (char *)(uintptr_t)source_name(c, i, names[i]);
	}
	argv[n] = NULL;
	run(c, argv);
}

static bool batches(const struct build_work *a, const struct build_work *b)
{
	return b->object.state == OBJECT_WAITING && b->object.mode == BUILD_OBJECT && !b->alone &&
	       b->group && a->group && !strcmp(a->group, b->group) &&
	       a->object.arch == b->object.arch;
}

static struct build_work *waiting(void)
{
	while (next_waiting && next_waiting->object.state != OBJECT_WAITING)
		next_waiting = next_waiting->next;
	return next_waiting;
}

static void start(struct call *c)
{
	struct build_work *w = waiting(), *b;
	struct buf path = { 0 };

	c->works[0] = w;
	c->n = 1;
	c->link = 0;
	/* Neighbours in the order of asking alone: nothing waits for a batch. */
	for (b = w->next; b && c->n < options.batch && w->object.mode == BUILD_OBJECT &&
	                  !w->alone && batches(w, b);
	     b = b->next)
		c->works[c->n++] = b;
	buf_printf(&path, "%s/tmp.%ld.%d", folder, (long)getpid(), folders++);
	c->folder = path.data;
	if (mkdir(c->folder, 0777))
		die_errno("cannot make folder '%s'", c->folder);
	for (int i = 0; i < c->n; i++) {
		char name[32];
		struct buf file = { 0 };

		buf_printf(&file, "%s/%s", c->folder, source_name(c, i, name));
		host_write(file.data, c->works[i]->source, c->works[i]->len);
		buf_free(&file);
		c->works[i]->object.state = OBJECT_BUILDING;
	}
	buf_clear(&c->log);
	command(c);
	host_watch(c->fd, ended, c);
}

/* Moves what was made to its place. */
static bool take(const struct call *c, int i)
{
	const struct build_work *w = c->works[i];
	char *to = object_path(w);
	struct buf from = { 0 };
	bool ok;

	if (w->object.mode == BUILD_PYTHON)
		buf_printf(&from, "%s/candidate.py", c->folder);
	else if (c->n == 1)
		buf_printf(&from, "%s/candidate.so", c->folder);
	else
		buf_printf(&from, "%s/candidate%d.so", c->folder, i);
	ok = !has_object(w->object.mode) || !rename(from.data, to);
	buf_free(&from);
	free(to);
	return ok;
}

static void finish(struct call *c)
{
	host_remove_folder(c->folder);
	free(c->folder);
	c->folder = NULL;
	c->pid = 0;
}

/* A batch that did not go well is no answer for any of its files. */
static void scatter(struct call *c)
{
	for (int i = 0; i < c->n; i++) {
		c->works[i]->alone = true;
		c->works[i]->object.state = OBJECT_WAITING;
	}
	/* They stand before whatever waits now. */
	next_waiting = c->works[0];
	finish(c);
}

static void answer(struct call *c, int status)
{
	struct build_work *w = c->works[0];
	struct buf log = { 0 };

	read_log(&w->object, c->log.data ? c->log.data : "", c->log.len, c->folder, &log);
	if (c->late) {
		buf_clear(&log);
		buf_printf(&log, "the compiler took more than %g s", options.deadline_s);
		settle(w, OBJECT_BROKEN, log.data);
	} else if (WIFEXITED(status) && !WEXITSTATUS(status) && take(c, 0)) {
		keep(w, true, log.data);
		settle(w, OBJECT_READY, log.data);
	} else if (is_refusal(&w->object, status, log.data)) {
		keep(w, false, log.data);
		settle(w, OBJECT_REFUSED, log.data);
	} else {
		settle(w, OBJECT_BROKEN, log.len ? log.data : "the compiler ended without a word");
	}
	buf_free(&log);
	finish(c);
}

/* The reports of a batch: each file's begins with its `bytes gmem`. False if
 * they cannot be told apart. */
static bool split_reports(struct call *c)
{
	static const char mark[] = "bytes gmem";
	const char *p = c->log.data ? c->log.data : "", *end = p + c->log.len;
	int i = -1;

	while (p < end) {
		const char *eol = memchr(p, '\n', (size_t)(end - p)), *next = eol ? eol + 1 : end;
		struct buf line = { 0 };

		buf_add(&line, p, (size_t)(next - p));
		if (strstr(line.data, mark))
			i++;
		if (i >= c->n || (!is_report(line.data) && *line.data != '\n')) {
			buf_free(&line);
			return false; /* a warning: whose? */
		}
		if (i >= 0)
			read_report(&c->works[i]->object, line.data);
		buf_free(&line);
		p = next;
	}
	return i == c->n - 1;
}

/* The call's child has closed its output. */
static void ended(void *arg)
{
	struct call *c = arg;
	char block[4096];
	ssize_t n = read(c->fd, block, sizeof block);
	int status;

	if (n < 0 && errno == EINTR)
		return;
	if (n > 0) {
		if (c->log.len < MAX_LOG)
			buf_add(&c->log, block, (size_t)n);
		return;
	}
	host_forget(c->fd);
	close(c->fd);
	status = host_wait(c->pid);
	if (c->n == 1) {
		answer(c, status);
		return;
	}
	if (c->late || !WIFEXITED(status) || WEXITSTATUS(status) ||
	    (!c->link && !split_reports(c))) {
		for (int i = 0; i < c->n; i++) {
			struct object *o = &c->works[i]->object;

			o->registers = o->smem_bytes = o->spill_bytes = -1;
		}
		scatter(c);
		return;
	}
	if (c->link++ < c->n) {
		command(c);
		host_watch(c->fd, ended, c);
		return;
	}
	for (int i = 0; i < c->n; i++) {
		if (!take(c, i))
			die_errno("cannot move what nvcc made to '%s'", folder);
		keep(c->works[i], true, "");
		settle(c->works[i], OBJECT_READY, "");
	}
	finish(c);
}

/* The compiler that w needs is missing: says so once and for all. */
static bool lacks_compiler(struct build_work *w)
{
	if (w->object.mode == BUILD_PYTHON) {
		if (!python)
			python = host_program("python3", NULL);
		if (python)
			return false;
		settle(w, OBJECT_BROKEN, "no python3 on this machine");
		return true;
	}
	if (*build_nvcc_version())
		return false;
	settle(w, OBJECT_BROKEN, "no nvcc on this machine");
	return true;
}

double build_tick(void)
{
	double now = host_seconds(), until = now + 3600;

	for (int i = 0; i < options.jobs; i++) {
		struct call *c = &calls[i];

		while (!c->pid && !stopped && waiting() && lacks_compiler(waiting()))
			;
		if (!c->pid && !stopped && waiting())
			start(c);
		if (!c->pid)
			continue;
		/* Once killed, its end shows as the end of its output. */
		if (now > c->until && !c->late) {
			c->late = true;
			kill(-c->pid, SIGKILL);
		}
		if (!c->late && c->until < until)
			until = c->until;
	}
	return until;
}

void build_close(void)
{
	for (int i = 0; i < options.jobs; i++) {
		if (!calls[i].pid)
			continue;
		host_forget(calls[i].fd);
		close(calls[i].fd);
		host_kill(calls[i].pid);
		finish(&calls[i]);
		buf_free(&calls[i].log);
	}
	free(calls);
	calls = NULL;
	while (first) {
		struct build_work *w = first;

		first = w->next;
		free(w->key);
		free(w->source);
		free(w->object.path);
		free(w->object.log);
		free(w);
	}
	last = next_waiting = NULL;
	memset(table, 0, sizeof table);
	left = 0;
	free(folder);
}
