/*
 * host.h - what bench asks of the machine that it runs on: clock, paths,
 * child processes, a poll loop.
 *
 * Errors of the machine (no fork, no pipe, no folder) end the program with
 * EX_IO. All file descriptors made here are closed on exec.
 */
#ifndef GPURUN_HOST_H
#define GPURUN_HOST_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

/* Seconds since some moment before the first call; never goes back. */
double host_seconds(void);
/* Now, UTC, as "2026-11-30T20:41:07Z"; valid until the next call. */
const char *host_date(void);
int host_cores(void);

/* The path of a file relative to the folder of the running program, as
 * "../src/etc/x" of bin/bench; the caller's to free. */
char *host_beside(const char *relative);
/* An executable of that name in PATH or, failing that, at `otherwise` (may be
 * NULL); NULL if there is none. The caller's to free. */
char *host_program(const char *name, const char *otherwise);
/* Makes a folder with those above it; its absolute path, the caller's. */
char *host_folder(const char *path);
/* Removes a folder and the files in it, one level deep; silent. */
void host_remove_folder(const char *path);
/* Appends a file's bytes, at most `most` of them, and at the end of the file
 * if it has more; false if it cannot be read. */
bool host_read(const char *path, size_t most, struct buf *out);
/* Writes a file by way of a temporary one beside it; dies if it cannot. */
void host_write(const char *path, const void *p, size_t n);

struct child {
	char *const *argv; /* argv[0] is the program's path */
	const char *dir;   /* its working directory and TMPDIR; NULL: ours */
	int out;           /* becomes its stdout and stderr */
	int keep;          /* stays open in it; -1: none */
	long max_file;     /* bytes that it may write to one file; 0: any */
};

/* Starts it in a process group of its own, with stdin from /dev/null. It is
 * killed when bench dies. */
pid_t host_start(const struct child *c);
/* Kills the group and waits for its leader; returns the leader's wait status. */
int host_kill(pid_t pid);
/* Waits for the child; its wait status. */
int host_wait(pid_t pid);
/* Runs it to its end, its output appended to out; the exit status, 127 if it
 * could not be run, 128 + N if signal N ended it. */
int host_run(char *const *argv, struct buf *out);
/* A pipe. */
void host_pipe(int fd[2]);

/* The loop: fn(arg) is called when fd can be read or is closed by its other
 * end. A watched fd is forgotten before it is closed. */
void host_watch(int fd, void (*fn)(void *arg), void *arg);
void host_forget(int fd);
/* Waits until some watched fd can be read, but not beyond `until` (on the clock
 * of host_seconds), and calls what belongs to those that can. */
void host_poll(double until);

#endif
