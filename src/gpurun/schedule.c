/* schedule.c - the one loop that everything on the GPU goes through. */
#include "gpurun/schedule.h"

#include <stdio.h>
#include <string.h>

#include "gpurun/host.h"

static struct schedule_options options;
static struct job *first, **end = &first;
static int waiting;

void schedule_open(const struct schedule_options *o)
{
	options = *o;
}

void schedule_add(struct job *j)
{
	j->next = NULL;
	*end = j;
	end = &j->next;
	waiting++;
}

bool schedule_late(void)
{
	return options.until > 0 && host_seconds() >= options.until;
}

static void run_done(struct run *r)
{
	struct job *j = r->owner;

	j->done(j);
}

/* Whether a worker is to be asked. */
static bool fit(const struct job *j)
{
	const struct object *o = j->object;

	return !j->build_only && !(j->cancel && *j->cancel) &&
	       (!o || (o->state == OBJECT_READY && !*o->forbidden));
}

static void begin(struct job *j)
{
	const struct object *o = j->object;

	j->run.end = END_NONE;
	if (!fit(j)) {
		j->done(j);
		return;
	}
	snprintf(j->run.request.object, sizeof j->run.request.object, "%s",
	         o         ? o->path
	         : j->name ? j->name
	                   : "");
	j->run.done = run_done;
	j->run.owner = j;
	pool_give(&j->run);
}

static void find_room(bool room[WORKER_KINDS])
{
	for (int k = 0; k < WORKER_KINDS; k++)
		room[k] = pool_has_room((enum worker_kind)k);
}

/* Begins what can begin now; false if that is nothing. */
static bool dispatch(void)
{
	bool room[WORKER_KINDS], any = false;
	struct job **at = &first, *j;

	if (options.timed && build_left())
		return false;
	find_room(room);
	while ((j = *at)) {
		const struct object *o = j->object;
		enum worker_kind k = j->run.kind;

		if ((o && !build_done(o)) || (fit(j) && (!room[k] || (j->after && !*j->after)))) {
			at = &j->next;
			continue;
		}
		*at = j->next;
		if (end == &j->next)
			end = at;
		waiting--;
		any = true;
		begin(j);
		/* `done` may have added jobs behind; `at` still stands. */
		find_room(room);
	}
	return any;
}

int schedule_run(void)
{
	int dropped;

	while (waiting || pool_busy() || build_left()) {
		double until = build_tick(), pool = pool_tick();

		if (schedule_late()) {
			build_stop();
			if (!pool_busy())
				break;
		} else if (dispatch()) {
			continue;
		}
		if (options.until > 0 && options.until < until && !schedule_late())
			until = options.until;
		host_poll(pool < until ? pool : until);
	}
	dropped = waiting;
	first = NULL;
	end = &first;
	waiting = 0;
	return dropped;
}
