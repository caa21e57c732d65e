/*
 * arena.c - a list of blocks, handed out front to back.
 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/die.h"

enum { BLOCK_BYTES = 256 * 1024, ALIGNMENT = 16 };

struct arena_block {
	struct arena_block *next;
	size_t size;
	_Alignas(ALIGNMENT) char data[];
};

void *arena_alloc(struct arena *a, size_t n)
{
	n = (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	while (!a->current || a->used + n > a->current->size) {
		struct arena_block *b = a->current ? a->current->next : a->first;

		if (!b) {
			size_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;

			b = xmalloc(sizeof *b + size);
			b->next = NULL;
			b->size = size;
			if (a->current)
				a->current->next = b;
			else
				a->first = b;
		}
		a->current = b;
		a->used = 0;
	}
	a->used += n;
	return a->current->data + a->used - n;
}

char *arena_copy(struct arena *a, const char *s, size_t n)
{
	char *p = arena_alloc(a, n + 1);

	memcpy(p, s, n);
	p[n] = '\0';
	return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list args;
	int n;
	char *p;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0)
		bug("cannot format '%s'", fmt);
	p = arena_alloc(a, (size_t)n + 1);
	va_start(args, fmt);
	vsnprintf(p, (size_t)n + 1, fmt, args);
	va_end(args);
	return p;
}

void arena_reset(struct arena *a)
{
	a->current = a->first;
	a->used = 0;
}

bool arena_holds(const struct arena *a, const void *p)
{
	const struct arena_block *b;

	for (b = a->first; b; b = b->next)
		if ((uintptr_t)p - (uintptr_t)b->data < b->size)
			return true;
	return false;
}
