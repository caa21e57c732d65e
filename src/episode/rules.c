/* rules.c - see rules.h. */
#include "episode/rules.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
	const char *name, *text;
} rules[N_RULES] = {
#define RULE(id, name, text) { name, text },
#include "episode/rules.def"
};

const char *rule_name(enum rule rule)
{
	return rules[rule].name;
}

const char *rule_text(enum rule rule)
{
	return rules[rule].text;
}

void object(const struct objector *o, enum rule rule, int message, const char *field,
            const char *fmt, ...)
{
	char path[96], what[256];
	va_list ap;

	if (message >= 0)
		snprintf(path, sizeof path, "messages[%d].%s", message, field);
	else
		snprintf(path, sizeof path, "%s", field);
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	o->say(o->arg, rule, path, what);
}
