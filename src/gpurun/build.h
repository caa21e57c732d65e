/*
 * build.h - sources into objects: a cache by content, nvcc on all cores.
 *
 * There is one builder per process. It works while host_poll runs; nothing here
 * blocks but build_open and build_close. What a compiler refuses is cached like
 * what it takes; trouble of the machine (killed, no space) is not.
 */
#ifndef GPURUN_BUILD_H
#define GPURUN_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum build_mode {
	BUILD_OBJECT, /* a shared object to load */
	BUILD_CODE,   /* machine code alone: is it accepted for the arch? */
	BUILD_FRONT,  /* the front end alone: what does it say? */
	BUILD_PYTHON, /* Python's parser; the object is the source */
	BUILD_MODES
};

enum object_state {
	OBJECT_WAITING,
	OBJECT_BUILDING,
	OBJECT_READY,
	OBJECT_REFUSED, /* the compiler said no */
	OBJECT_BROKEN   /* no answer: the machine's trouble */
};

/* Belongs to the builder, until build_close. */
struct object {
	enum object_state state;
	enum build_mode mode;
	uint64_t source_hash; /* hash_bytes of the source, 0 */
	const char *op, *arch;
	char *path; /* absolute; BUILD_OBJECT and BUILD_PYTHON */
	/* The compiler's words without paths of ours, printable; "" if none. For
	 * OBJECT_BROKEN what went wrong. */
	char *log;
	/* What ptxas reports, the largest of all kernels; -1 not known. */
	int64_t registers, smem_bytes, spill_bytes;
	char forbidden[128];     /* READY: why it may not be loaded; "" if it may */
	struct build_work *work; /* private */
};

struct build_options {
	const char *folder; /* of the cache; made if missing */
	int jobs;           /* compilers at a time */
	int batch;          /* files per call of nvcc, at most */
	double deadline_s;  /* of one call, per file */
};

/* Dies (EX_IO) without a usable folder. The compilers are looked for when the
 * first source asks for them. */
void build_open(const struct build_options *o);
/* Kills what runs, removes temporary files, frees all objects. */
void build_close(void);

struct build_request {
	const char *op;   /* the launcher's name; static lifetime */
	const char *arch; /* "sm_90a"; static lifetime */
	enum build_mode mode;
	const char *source; /* copied */
	size_t len;
	/* Sources of one group may share a call of nvcc, which is for those that
	 * are expected to compile; NULL: alone. Static lifetime. */
	const char *group;
};

/* The object of that content: from the cache or, later, from a compiler. Order
 * of asking is order of building. The same content gives the same object. */
struct object *build_want(const struct build_request *r);
/* True when the object's state is final. */
bool build_done(const struct object *o);
/* How many are not final. */
int build_left(void);
/* Starts no more compilers: what waits stays waiting. */
void build_stop(void);
/* To be called before each host_poll: starts what can be started and ends what
 * is late. Returns when it has to be called again at the latest. */
double build_tick(void);

/* "13.0.88", or "" where nvcc is missing. */
const char *build_nvcc_version(void);
/* The first error in an object's log: line and words. False if there is none. */
bool build_first_error(const struct object *o, int *line, const char **words, int *len);
/* Whether a refusal is for want of an instruction of the arch: every error is
 * ptxas', and of that sort. */
bool build_lacks_feature(const struct object *o);

#endif
