/* source.c - rows made from nothing. */
#include "base/out.h"
#include "row/loop.h"
#include "row/progress.h"
#include "row/row.h"

void source_open(struct row *r, int64_t total)
{
	out_start();
	row_reset();
	*r = (struct row){ .root = json_new_object() };
	progress_start(total);
}

void source_next(struct row *r)
{
	json_free(r->root);
	row_reset();
	r->root = json_new_object();
	r->line++;
	progress_row();
}

int source_close(struct row *r)
{
	json_free(r->root);
	r->root = NULL;
	progress_end();
	out_close();
	return 0;
}
