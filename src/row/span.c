/* span.c - the strings of the present row that stand outside its tree. */
#include "row/span.h"

#include <stdint.h>
#include <stdio.h>

#include "base/die.h"
#include "base/num.h"

static struct span *spans;
static size_t n_spans, cap_spans;

void span_reset(void)
{
	n_spans = 0;
}

int span_add(const char *raw, size_t len, char mark[SPAN_MARK_MAX])
{
	if (n_spans == cap_spans) {
		cap_spans = cap_spans ? 2 * cap_spans : 256;
		spans = xrealloc(spans, cap_spans * sizeof(*spans));
	}
	spans[n_spans] = (struct span){ raw, len };
	return snprintf(mark, SPAN_MARK_MAX, "%c%zu", SPAN_MARK, n_spans++);
}

bool span_peek(const char *s, struct span *out)
{
	uint64_t i;

	if (s[0] != SPAN_MARK || !num_parse_u64(s + 1, &i) || i >= n_spans)
		return false;
	*out = spans[i];
	return true;
}

bool span_find(const char *s, struct span *out)
{
	if (s[0] != SPAN_MARK)
		return false;
	if (!span_peek(s, out))
		bug("a string begins with the byte 1 and marks no span: use row_new_text");
	return true;
}
