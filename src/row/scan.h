/* scan.h - the strict look at a row's bytes before cJSON sees them. */
#ifndef ROW_SCAN_H
#define ROW_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* A member of the row's outermost object, as it stands in the line. */
struct scan_member {
	const char *key; /* between the quotes, escapes kept */
	size_t key_len;
	const char *value;
	size_t value_len;
};

/* Kept from row to row for its memory; {0} to begin with, scan_free at last. */
struct scan {
	/* After a cutting scan: the row with its spans replaced by marks, or the
	 * line itself if there is none. */
	const char *text;
	size_t text_len;
	struct scan_member *members;
	size_t n_members;
	/* After a failure: what is wrong, at which byte. */
	const char *what;
	size_t at;
	bool torn; /* the line ends before its object does */
	/* Private. */
	struct buf skeleton;
	size_t cap_members;
};

/*
 * Is the line (len bytes, then a NUL) one strictly valid JSON object within the
 * limits of row.h? Also refused: a control byte anywhere, bad UTF-8, \u0000, an
 * unpaired surrogate, a number of more than ROW_MAX_NUMBER bytes or one that is
 * infinite or would print so. Duplicate keys are left to check.h. With `cut` the
 * long strings become spans (span_add).
 */
bool scan_row(struct scan *s, const char *line, size_t len, bool cut);
void scan_free(struct scan *s);

#endif
