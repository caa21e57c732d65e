/* host.c - clock, paths, children, poll. */
#include "gpurun/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/die.h"

double host_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *host_date(void)
{
	static char text[32];
	time_t now = time(NULL);
	struct tm tm;

	if (!gmtime_r(&now, &tm))
		bug("no date");
	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return text;
}

int host_cores(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > 1024 ? 1024 : (int)n;
}

/* --- paths ----------------------------------------------------------------- */

char *host_beside(const char *relative)
{
	char self[4096] = "", *slash;
	struct buf path = { 0 };

	if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
		die_errno("cannot read '/proc/self/exe'");
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	buf_printf(&path, "%s/%s", self, relative);
	return path.data;
}

char *host_program(const char *name, const char *otherwise)
{
	const char *p = getenv("PATH");

	if (strchr(name, '/'))
		return access(name, X_OK) ? NULL : xstrdup(name);
	while (p && *p) {
		size_t n = strcspn(p, ":");
		struct buf path = { 0 };

		buf_printf(&path, "%.*s/%s", (int)n, p, name);
		if (n && !access(path.data, X_OK))
			return path.data;
		buf_free(&path);
		p += n + (p[n] == ':');
	}
	return otherwise && !access(otherwise, X_OK) ? xstrdup(otherwise) : NULL;
}

char *host_folder(const char *path)
{
	char *copy = xstrdup(path), here[4096];
	struct buf whole = { 0 };

	for (char *p = copy + 1; *copy; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = '\0';
		if (mkdir(copy, 0777) && errno != EEXIST)
			die_errno("cannot make folder '%s'", copy);
		*p = c;
		if (!c)
			break;
	}
	free(copy);
	if (*path != '/' && !getcwd(here, sizeof here))
		die_errno("cannot name the working directory");
	if (*path != '/')
		buf_printf(&whole, "%s/", here);
	buf_str(&whole, path);
	return whole.data;
}

void host_remove_folder(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		struct buf name = { 0 };

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		buf_printf(&name, "%s/%s", path, e->d_name);
		unlink(name.data);
		buf_free(&name);
	}
	if (d)
		closedir(d);
	rmdir(path);
}

bool host_read(const char *path, size_t most, struct buf *out)
{
	FILE *f = fopen(path, "re");
	char block[4096];
	long size;
	size_t n, left = most;

	if (!f)
		return false;
	if (!fseek(f, 0, SEEK_END) && (size = ftell(f)) >= 0)
		fseek(f, (unsigned long)size > most ? size - (long)most : 0, SEEK_SET);
	while (left && (n = fread(block, 1, left < sizeof block ? left : sizeof block, f))) {
		buf_add(out, block, n);
		left -= n;
	}
	buf_reserve(out, 0);
	n = (size_t)ferror(f);
	fclose(f);
	return !n;
}

void host_write(const char *path, const void *p, size_t n)
{
	struct buf temporary = { 0 };
	FILE *f;

	buf_printf(&temporary, "%s.%ld", path, (long)getpid());
	f = fopen(temporary.data, "we");
	if (!f || fwrite(p, 1, n, f) != n || fclose(f) || rename(temporary.data, path))
		die_errno("cannot write '%s'", path);
	buf_free(&temporary);
}

/* --- children ---------------------------------------------------------------- */

static void close_on_exec(int fd)
{
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void host_pipe(int fd[2])
{
	if (pipe(fd))
		die_errno("cannot make a pipe");
	close_on_exec(fd[0]);
	close_on_exec(fd[1]);
}

static _Noreturn void become(const struct child *c, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY);
	struct rlimit limit = { (rlim_t)c->max_file, (rlim_t)c->max_file };

	setpgid(0, 0);
	/* The parent may have died before the request. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(127);
	if (c->dir && (chdir(c->dir) || setenv("TMPDIR", c->dir, 1)))
		_exit(127);
	if (dup2(null, STDIN_FILENO) < 0 || dup2(c->out, STDOUT_FILENO) < 0 ||
	    dup2(c->out, STDERR_FILENO) < 0)
		_exit(127);
	if (c->keep >= 0 && fcntl(c->keep, F_SETFD, 0))
		_exit(127);
	if (c->max_file && setrlimit(RLIMIT_FSIZE, &limit))
		_exit(127);
	execv(c->argv[0], c->argv);
	_exit(127);
}

pid_t host_start(const struct child *c)
{
	pid_t parent = getpid(), pid;

	pid = fork();
	if (pid < 0)
		die_errno("cannot start '%s'", c->argv[0]);
	if (!pid)
		become(c, parent);
	/* In both, so that neither has to wait for the other. */
	setpgid(pid, pid);
	return pid;
}

int host_wait(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			die_errno("cannot wait for a child");
	}
	return status;
}

int host_kill(pid_t pid)
{
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	return host_wait(pid);
}

int host_run(char *const *argv, struct buf *out)
{
	struct child c = { .argv = argv, .keep = -1 };
	char block[4096];
	ssize_t n;
	int fd[2], status;
	pid_t pid;

	host_pipe(fd);
	c.out = fd[1];
	pid = host_start(&c);
	close(fd[1]);
	while ((n = read(fd[0], block, sizeof block)) > 0 || (n < 0 && errno == EINTR)) {
		if (n > 0)
			buf_add(out, block, (size_t)n);
	}
	close(fd[0]);
	status = host_wait(pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- the loop ---------------------------------------------------------------- */

static struct pollfd *fds;
static struct watch {
	void (*fn)(void *arg);
	void *arg;
} * watches;
static int n_fds, cap_fds;

void host_watch(int fd, void (*fn)(void *arg), void *arg)
{
	if (n_fds == cap_fds) {
		cap_fds = cap_fds ? 2 * cap_fds : 64;
		fds = xrealloc(fds, (unsigned long)cap_fds * sizeof *fds);
		watches = xrealloc(watches, (unsigned long)cap_fds * sizeof *watches);
	}
	fds[n_fds] = (struct pollfd){ .fd = fd, .events = POLLIN };
	watches[n_fds++] = (struct watch){ fn, arg };
}

void host_forget(int fd)
{
	for (int i = 0; i < n_fds; i++) {
		if (fds[i].fd != fd)
			continue;
		fds[i] = fds[--n_fds];
		watches[i] = watches[n_fds];
		return;
	}
	bug("fd %d is not watched", fd);
}

void host_poll(double until)
{
	double left = until - host_seconds();
	int wait = left <= 0 ? 0 : left > 3600 ? 3600 * 1000 : (int)(left * 1000) + 1, n;
	int *ready;

	n = poll(fds, (nfds_t)n_fds, wait);
	if (n < 0 && errno != EINTR)
		die_errno("cannot poll");
	if (n <= 0)
		return;
	/* What is called may watch and forget: by number, and looked up again. */
	ready = xmalloc((unsigned long)n * sizeof *ready);
	n = 0;
	for (int i = 0; i < n_fds; i++) {
		if (fds[i].revents)
			ready[n++] = fds[i].fd;
	}
	for (int k = 0; k < n; k++) {
		for (int i = 0; i < n_fds; i++) {
			if (fds[i].fd == ready[k] && fds[i].revents) {
				fds[i].revents = 0;
				watches[i].fn(watches[i].arg);
				break;
			}
		}
	}
	free(ready);
}
