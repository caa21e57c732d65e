/* reader.c - lines out of files, in place, without a copy per line. */
#include "row/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "row/loop.h"
#include "row/row.h"
#include "row/scan.h"

enum {
	FIRST_SIZE = 512 * 1024,
	READ_SIZE = 128 * 1024,               /* room that a read shall find */
	LAST_SIZE = ROW_MAX_BYTES + READ_SIZE /* the longest line fits */
};

struct reader {
	const char *file; /* for messages, "-" for stdin */
	int fd;
	char *data;
	size_t size;       /* of data, without the place of the last NUL */
	size_t start, end; /* bytes read and not yet handed out */
	bool at_end;       /* read(2) said so */
	int64_t line;
	struct scan scan; /* of the last reader_line */
};

struct reader *reader_open(const char *path)
{
	struct reader *rd = xmalloc(sizeof(*rd));

	*rd = (struct reader){ .file = path, .size = FIRST_SIZE };
	if (strcmp(path, "-") == 0)
		rd->fd = STDIN_FILENO;
	else
		rd->fd = open(path, O_RDONLY);
	if (rd->fd < 0)
		die_errno("cannot open '%s'", path);
	rd->data = xmalloc(rd->size + 1);
	return rd;
}

void reader_close(struct reader *rd)
{
	if (rd->fd != STDIN_FILENO)
		close(rd->fd);
	scan_free(&rd->scan);
	free(rd->data);
	free(rd);
}

int64_t reader_lineno(const struct reader *rd)
{
	return rd->line;
}

/* Reads some more bytes behind `end`; false at the end of the file. */
static bool fill(struct reader *rd)
{
	ssize_t n;

	if (rd->start == rd->end)
		rd->start = rd->end = 0;
	if (rd->size - rd->end < READ_SIZE && rd->start) {
		memmove(rd->data, rd->data + rd->start, rd->end - rd->start);
		rd->end -= rd->start;
		rd->start = 0;
	}
	if (rd->size - rd->end < READ_SIZE && rd->size < LAST_SIZE) {
		rd->size = 2 * rd->size < LAST_SIZE ? 2 * rd->size : LAST_SIZE;
		rd->data = xrealloc(rd->data, rd->size + 1);
	}
	do
		n = read(rd->fd, rd->data + rd->end, rd->size - rd->end);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		die_errno("cannot read '%s'", rd->file);
	rd->end += (size_t)n;
	if (!n)
		rd->at_end = true;
	return n > 0;
}

/* Forgets the rest of a line that is too long. */
static void skip_line(struct reader *rd)
{
	char *newline;

	do {
		newline = memchr(rd->data + rd->start, '\n', rd->end - rd->start);
		rd->start = newline ? (size_t)(newline + 1 - rd->data) : rd->end;
	} while (!newline && fill(rd));
}

enum reader_got reader_next(struct reader *rd, const char **line, size_t *len, bool *newline)
{
	size_t seen = 0; /* bytes without a newline */
	char *end = NULL;

	for (;;) {
		end = memchr(rd->data + rd->start + seen, '\n', rd->end - rd->start - seen);
		if (end)
			break;
		seen = rd->end - rd->start;
		if (seen > ROW_MAX_BYTES) {
			rd->line++;
			skip_line(rd);
			return READER_TOO_LONG;
		}
		if (rd->at_end || !fill(rd))
			break;
	}
	if (!end && !seen)
		return READER_END;
	rd->line++;
	*newline = end;
	*line = rd->data + rd->start;
	*len = end ? (size_t)(end - *line) : seen;
	rd->data[rd->start + *len] = '\0';
	rd->start += *len + *newline;
	return *len > ROW_MAX_BYTES ? READER_TOO_LONG : READER_LINE;
}

const char *reader_line(struct reader *rd, size_t *len, bool *torn)
{
	enum reader_got got;
	const char *line;
	bool newline;
	struct row r;

	got = reader_next(rd, &line, len, &newline);
	if (got == READER_END)
		return NULL;
	r = (struct row){ .file = rd->file, .line = rd->line };
	if (got == READER_TOO_LONG)
		row_fail(&r, "row is longer than 2 MB");
	if (!scan_row(&rd->scan, line, *len, false))
		row_fail_scan(&r, &rd->scan, line, *len, newline);
	*torn = !newline;
	return line;
}

const char *reader_member(const struct reader *rd, const char *key, size_t *len)
{
	const struct row r = { .file = rd->file, .line = rd->line };
	const struct scan_member *m = rd->scan.members, *end = m + rd->scan.n_members;
	const char *value = NULL;
	size_t n = strlen(key);

	for (; m < end; m++) {
		if (m->key_len != n || memcmp(m->key, key, n) != 0)
			continue;
		if (value)
			row_fail(&r, "duplicate key '%s'", key);
		value = m->value;
		*len = m->value_len;
	}
	return value;
}
