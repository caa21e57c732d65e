/* json.c - the only door to cJSON. */
#include "row/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/arena.h"
#include "base/die.h"
#include "base/opt.h"

/* --- memory --------------------------------------------------------------- */

/* A row is thousands of small nodes that die together: json_parse_row takes
 * them from here, everything else comes from malloc. */
static struct arena row_nodes;
static bool parsing_row;

static void *take(size_t n)
{
	return parsing_row ? arena_alloc(&row_nodes, n) : xmalloc(n);
}

static void give(void *p)
{
	if (!arena_holds(&row_nodes, p))
		free(p);
}

/* Before main, so that no node is made with other hooks and --version can name
 * the library in every program that links it. */
__attribute__((constructor)) static void set_up(void)
{
	static char library[32];
	cJSON_Hooks hooks = { take, give };

	cJSON_InitHooks(&hooks);
	snprintf(library, sizeof(library), "cJSON %s", cJSON_Version());
	opt_library = library;
}

void json_free(json *j)
{
	cJSON_Delete(j);
}

json *json_parse(const char *text, size_t len)
{
	return cJSON_ParseWithLengthOpts(text, len + 1, NULL, 1);
}

json *json_parse_row(const char *text, size_t len)
{
	json *j;

	arena_reset(&row_nodes);
	parsing_row = true;
	j = json_parse(text, len);
	parsing_row = false;
	return j;
}

/* --- reading -------------------------------------------------------------- */

enum json_kind json_kind(const json *j)
{
	switch (j ? j->type & 0xff : cJSON_Invalid) {
	case cJSON_NULL:
		return JSON_NULL;
	case cJSON_False:
	case cJSON_True:
		return JSON_BOOL;
	case cJSON_Number:
		return JSON_NUMBER;
	case cJSON_String:
		return JSON_STRING;
	case cJSON_Array:
		return JSON_ARRAY;
	case cJSON_Object:
		return JSON_OBJECT;
	}
	return JSON_NONE;
}

bool json_is_null(const json *j)
{
	return json_kind(j) == JSON_NULL;
}

bool json_is_object(const json *j)
{
	return json_kind(j) == JSON_OBJECT;
}

bool json_is_array(const json *j)
{
	return json_kind(j) == JSON_ARRAY;
}

bool json_is_string(const json *j)
{
	return json_kind(j) == JSON_STRING;
}

bool json_is_number(const json *j)
{
	return json_kind(j) == JSON_NUMBER;
}

bool json_is_bool(const json *j)
{
	return json_kind(j) == JSON_BOOL;
}

bool json_is_true(const json *j)
{
	return cJSON_IsTrue(j);
}

bool json_is_int(const json *j)
{
	return json_is_number(j) && fabs(j->valuedouble) < 1e15 &&
	       (double)(int64_t)j->valuedouble == j->valuedouble;
}

double json_num(const json *j)
{
	if (!json_is_number(j))
		bug("json_num of a node that is no number");
	return j->valuedouble;
}

int64_t json_int(const json *j)
{
	if (!json_is_int(j))
		bug("json_int of a node that is no integer");
	return (int64_t)j->valuedouble;
}

const char *json_str(const json *j)
{
	if (!json_is_string(j))
		bug("json_str of a node that is no string");
	return j->valuestring;
}

json *json_get_mut(json *obj, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(obj, key);
}

const json *json_get(const json *obj, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(obj, key);
}

json *json_first(const json *j)
{
	return j ? j->child : NULL;
}

json *json_next(const json *j)
{
	return j->next;
}

const char *json_key(const json *j)
{
	return j->string;
}

int json_count(const json *j)
{
	return cJSON_GetArraySize(j);
}

/* --- making --------------------------------------------------------------- */

/* The hooks do not return without memory, so NULL means misuse. */
static json *made(json *j)
{
	if (!j)
		bug("cJSON made no node");
	return j;
}

static double finite(double x)
{
	if (!isfinite(x))
		bug("number is not finite");
	return x;
}

json *json_new_object(void)
{
	return made(cJSON_CreateObject());
}

json *json_new_array(void)
{
	return made(cJSON_CreateArray());
}

json *json_new_str(const char *s)
{
	return made(cJSON_CreateString(s));
}

json *json_new_num(double x)
{
	return made(cJSON_CreateNumber(finite(x)));
}

json *json_new_int(int64_t x)
{
	if (x <= -1000000000000000 || x >= 1000000000000000)
		bug("integer beyond 10^15 in a row");
	return made(cJSON_CreateNumber((double)x));
}

json *json_new_bool(bool b)
{
	return made(cJSON_CreateBool(b));
}

json *json_new_null(void)
{
	return made(cJSON_CreateNull());
}

json *json_copy(const json *j)
{
	return made(cJSON_Duplicate(j, 1));
}

void json_add(json *obj, const char *key, json *value)
{
	if (!json_is_object(obj) || !cJSON_AddItemToObject(obj, key, value))
		bug("cannot add key '%s'", key);
}

void json_push(json *arr, json *value)
{
	if (!json_is_array(arr) || !cJSON_AddItemToArray(arr, value))
		bug("cannot push to a node that is no array");
}

void json_set(json *obj, const char *key, json *value)
{
	if (!json_get(obj, key))
		json_add(obj, key, value);
	else if (!cJSON_ReplaceItemInObjectCaseSensitive(obj, key, value))
		bug("cannot set key '%s'", key);
}

void json_set_num(json *j, double x)
{
	if (!json_is_number(j) && !json_is_null(j))
		bug("json_set_num of a node that is no number or null");
	j->type = (j->type & ~0xff) | cJSON_Number;
	cJSON_SetNumberHelper(j, finite(x));
}

void json_add_str(json *obj, const char *key, const char *s)
{
	json_add(obj, key, s ? json_new_str(s) : json_new_null());
}

void json_add_num(json *obj, const char *key, double x)
{
	json_add(obj, key, json_new_num(x));
}

void json_add_int(json *obj, const char *key, int64_t x)
{
	json_add(obj, key, json_new_int(x));
}

void json_add_bool(json *obj, const char *key, bool b)
{
	json_add(obj, key, json_new_bool(b));
}

void json_add_null(json *obj, const char *key)
{
	json_add(obj, key, json_new_null());
}

json *json_add_object(json *obj, const char *key)
{
	json *child = json_new_object();

	json_add(obj, key, child);
	return child;
}

json *json_add_array(json *obj, const char *key)
{
	json *child = json_new_array();

	json_add(obj, key, child);
	return child;
}
