/* out.c - stdout, which is written whole or reported. */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include "base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/die.h"

static bool started;

void out_start(void)
{
	enum { BUFFER = 1 << 20 };
	static char buffer[BUFFER];
	sigset_t pipe_only;

	if (started)
		return;
	started = true;
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	sigprocmask(SIG_UNBLOCK, &pipe_only, NULL);
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
#ifdef F_SETPIPE_SZ
	/* A pipe that takes a whole buffer wakes its reader once for it, not
	 * sixteen times. What is no pipe, or may not grow, stays as it is. */
	(void)fcntl(1, F_SETPIPE_SZ, BUFFER);
	errno = 0;
#endif
}

static _Noreturn void lost(void)
{
	die_errno("cannot write '<stdout>'");
}

void out_write(const void *p, size_t n)
{
	if (fwrite(p, 1, n, stdout) != n)
		lost();
}

void out_close(void)
{
	/* A failed fflush leaves errno; fclose alone would lose which it was
	 * when the fault happened earlier. */
	if (fflush(stdout) || ferror(stdout))
		lost();
	if (fclose(stdout))
		lost();
}
