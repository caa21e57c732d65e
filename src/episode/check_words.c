/* check_words.c - what texts and sources may say. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "episode/read.h"
#include "episode/walk.h"

/* ASCII only: no locale has a say. */
static bool letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool part_of_word(char c)
{
	return letter(c) || digit(c) || c == '_';
}

/* ---- times ---- */

void walk_time(struct walk *w, double ms, uint32_t who)
{
	if (isnan(ms))
		return;
	for (int k = 0; k < w->n_times; k++)
		if (w->time[k].ms == ms) {
			w->time[k].who |= who;
			return;
		}
	if (w->n_times < MAX_TIMES) {
		w->time[w->n_times].ms = ms;
		w->time[w->n_times++].who = who;
	}
}

static bool time_seen(const struct walk *w, double ms, int who)
{
	for (int k = 0; k < w->n_times; k++)
		if (w->time[k].ms == ms)
			return who < 0 || w->time[k].who >> who & 1;
	return false;
}

/* Start of the number that ends before `end`: 12, 0.034, 5.1e-05. */
static const char *number_start(const char *text, const char *end)
{
	const char *p = end;

	while (p > text && (digit(p[-1]) || p[-1] == '.'))
		p--;
	if (p - 2 > text && (p[-1] == '-' || p[-1] == '+') && p[-2] == 'e' && digit(p[-3])) {
		p -= 2;
		while (p > text && (digit(p[-1]) || p[-1] == '.'))
			p--;
	}
	while (p < end && *p == '.')
		p++;
	return p;
}

/* Every "<number> ms" of the text. With `learn` the audience sees it; else it
 * is held against what `who` has seen. */
static void text_times(struct walk *w, const char *text, int who, uint32_t audience, bool learn)
{
	for (const char *p = strstr(text, "ms"); p; p = strstr(p + 2, "ms")) {
		const char *end = p > text && p[-1] == ' ' ? p - 1 : p, *start;
		double ms;

		if (part_of_word(p[2]) || end == text || !digit(end[-1]))
			continue;
		start = number_start(text, end);
		if (start > text && part_of_word(start[-1]))
			continue;
		ms = strtod(start, NULL);
		if (learn)
			walk_time(w, ms, audience);
		else if (!time_seen(w, ms, who))
			object(w->o, RULE_TEXT_MS, w->i, "text",
			       "states %.*s ms, which %s has not seen", (int)(end - start), start,
			       w->e->messages[w->i].from);
	}
}

/* ---- candidates ---- */

/* Every c001 of the text; as above. */
static void text_candidates(struct walk *w, const char *text, int who, uint32_t audience,
                            bool learn)
{
	const struct message *m = &w->e->messages[w->i];
	char id[16];

	for (const char *p = strchr(text, 'c'); p; p = strchr(p + 1, 'c')) {
		size_t n = 1;
		int f;

		while (digit(p[n]))
			n++;
		if (n < 4 || n >= sizeof id || part_of_word(p[n]) ||
		    (p > text && part_of_word(p[-1])))
			continue;
		memcpy(id, p, n);
		id[n] = '\0';
		f = replay_fact(&w->past, id);
		if (m->kind == KIND_CANDIDATE && !strcmp(id, m->candidate))
			continue;
		if (learn) {
			if (f >= 0)
				w->past.heard[f] |= audience;
		} else if (f < 0 || (who >= 0 && !(w->past.heard[f] >> who & 1))) {
			object(w->o, RULE_TEXT_CANDIDATE, w->i, "text",
			       "names %s, which %s has not seen", id, m->from);
		}
	}
}

void walk_text(struct walk *w, const struct message *m)
{
	size_t len;
	const char *text = message_text(w->r, m, &len);
	int who = replay_who(w->e, m->from);
	uint32_t audience = replay_audience(w->e, m);

	if (!text)
		return;
	if (!len)
		object(w->o, RULE_EMPTY_TEXT, w->i, "text", "is empty");
	text_times(w, text, who, audience, false);
	text_candidates(w, text, who, audience, false);
	text_times(w, text, who, audience, true);
	text_candidates(w, text, who, audience, true);
}

/* ---- sources ---- */

static const char *const telling[] = { "fault", "faults",  "bug",       "bugs",
	                               "wrong", "wrongly", "incorrect", "incorrectly" };

/* The telling word that stands at p, of which `room` bytes may be read. */
static const char *telling_at(const char *p, size_t room)
{
	for (size_t k = 0; k < sizeof telling / sizeof telling[0]; k++) {
		size_t i = 0;

		while (telling[k][i] && i < room && (p[i] | 0x20) == telling[k][i])
			i++;
		if (!telling[k][i] && (i == room || !letter(p[i])))
			return telling[k];
	}
	return NULL;
}

/* The first word that gives an outcome away, or NULL. A word is a run of
 * letters: `default` and `debug` are none, `is_wrong` is one. */
static const char *telling_word(const char *s, size_t len)
{
	/* A bit per beginning: fau, bug, wro, inc. Three letters that agree are so
	 * rare that the branch costs nothing. */
	/* clang-format off */
	static const unsigned char begin[3][256] = {
		{ ['f'] = 1, ['F'] = 1, ['b'] = 2, ['B'] = 2, ['w'] = 4, ['W'] = 4, ['i'] = 8, ['I'] = 8 },
		{ ['a'] = 1, ['A'] = 1, ['u'] = 2, ['U'] = 2, ['r'] = 4, ['R'] = 4, ['n'] = 8, ['N'] = 8 },
		{ ['u'] = 1, ['U'] = 1, ['g'] = 2, ['G'] = 2, ['o'] = 4, ['O'] = 4, ['c'] = 8, ['C'] = 8 },
	};
	/* clang-format on */
	const unsigned char *p = (const unsigned char *)s;

	for (size_t i = 0; i + 2 < len; i++) {
		const char *word;

		if (!(begin[0][p[i]] & begin[1][p[i + 1]] & begin[2][p[i + 2]]) ||
		    (i && letter(s[i - 1])))
			continue;
		word = telling_at(s + i, len - i);
		if (word)
			return word;
	}
	return NULL;
}

void walk_source(struct walk *w, const struct message *m)
{
	size_t len;
	const char *source = message_source(w->r, m, &len), *word = telling_word(source, len);
	const char *launcher = w->e->task.impl == IMPL_TRITON ? "launch" : w->e->task.op->name;
	uint64_t hash = hash_bytes(source, len, 0);
	int who = replay_who(w->e, m->from);

	if (word)
		object(w->o, RULE_SOURCE_WORD, w->i, "source", "speaks of '%s'", word);
	if (!strstr(source, launcher))
		object(w->o, RULE_SOURCE_OP, w->i, "source", "does not define '%s'", launcher);
	for (int f = 0; f < w->past.n_facts; f++)
		if (w->source[f] == hash && who >= 0 && w->past.heard[f] >> who & 1) {
			object(w->o, RULE_RESUBMITTED, w->i, "source",
			       "is that of %s, which %s knows", w->past.fact[f].id, m->from);
			break;
		}
	w->source[w->past.n_facts] = hash;
}
