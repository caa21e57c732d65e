/*
 * declines.c - LAUNCHER's answer to a shape, on a machine without a GPU.
 *
 *   declines POINTERS AXIS…
 *
 * Linked to a kernel file. Every tensor is null and the workspace empty, so an
 * answer comes only from a launcher that looks at the axes and its parameters
 * before anything else. All arguments are integers or pointers, and the callee
 * takes as many as it knows of.
 */
#include <stdio.h>
#include <stdlib.h>

#define MOST 24

extern int LAUNCHER(long, ...);

/* The driver's only function that a kernel file links to. */
int cuTensorMapEncodeTiled(void);
int cuTensorMapEncodeTiled(void)
{
	return 999;
}

int main(int argc, char **argv)
{
	long a[MOST] = { 0 };
	int n = argc > 1 ? atoi(argv[1]) : MOST;

	if (n + argc - 2 > MOST)
		return 2;
	for (int i = 2; i < argc; i++)
		a[n + i - 2] = atol(argv[i]);
	printf("%d\n", LAUNCHER(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10],
	                        a[11], a[12], a[13], a[14], a[15], a[16], a[17], a[18], a[19],
	                        a[20], a[21], a[22], a[23]));
	return 0;
}
