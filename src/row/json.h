/*
 * json.h - the only door to cJSON: nothing else includes cJSON.h.
 *
 * Ownership: a tree belongs to its root; json_add and json_set give a node to
 * its parent; whoever holds a root frees it with json_free (a row's root
 * belongs to the row). Creation never fails: no memory means exit 3.
 *
 * Numbers are stored as given; round them first (num_time, num_value). A
 * non-finite number is a bug and dies.
 */
#ifndef ROW_JSON_H
#define ROW_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cJSON json;

void json_free(json *j);

/* Reading. `j` may be NULL, which is no type at all. */
enum json_kind {
	JSON_NONE,
	JSON_NULL,
	JSON_BOOL,
	JSON_NUMBER,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};
enum json_kind json_kind(const json *j);
bool json_is_null(const json *j);
bool json_is_object(const json *j);
bool json_is_array(const json *j);
bool json_is_string(const json *j);
bool json_is_number(const json *j);
bool json_is_bool(const json *j);
bool json_is_true(const json *j);
/* A number without fraction, |x| < 10^15. */
bool json_is_int(const json *j);
double json_num(const json *j);  /* dies (bug) if not a number */
int64_t json_int(const json *j); /* dies (bug) if not an int */
/* The string's bytes; for one kept as a span (row.h) a mark that equals no
 * other string of the row: row_text gives the bytes. Dies (bug) if not a
 * string. */
const char *json_str(const json *j);
const json *json_get(const json *obj, const char *key); /* case-sensitive */
json *json_get_mut(json *obj, const char *key);
/* Walk an array or object: for (c = json_first(j); c; c = json_next(c)). */
json *json_first(const json *j);
json *json_next(const json *j);
const char *json_key(const json *j); /* a member's key */
int json_count(const json *j);       /* O(n) */

/* Making. */
json *json_new_object(void);
json *json_new_array(void);
json *json_new_str(const char *s);
json *json_new_num(double x);
json *json_new_int(int64_t x);
json *json_new_bool(bool b);
json *json_new_null(void);
json *json_copy(const json *j);                         /* deep */
void json_add(json *obj, const char *key, json *value); /* appends */
void json_push(json *arr, json *value);
/* Replaces the value of `key` in its place, or appends; frees the old. */
void json_set(json *obj, const char *key, json *value);
/* In place, without allocation; j must be a number or null beforehand. */
void json_set_num(json *j, double x);

/* Text of len bytes, with a NUL behind it, as a tree; NULL if cJSON refuses
 * it. cJSON is no validator: scan_row (row/scan.h) is asked before. The tree of
 * json_parse_row lives in an arena until the next call of it: quick to make and
 * to free, and what shall outlive the row is copied (json_copy). */
json *json_parse(const char *text, size_t len);
json *json_parse_row(const char *text, size_t len);

/* Short forms of json_add. */
void json_add_str(json *obj, const char *key, const char *s_or_null);
void json_add_num(json *obj, const char *key, double x);
void json_add_int(json *obj, const char *key, int64_t x);
void json_add_bool(json *obj, const char *key, bool b);
void json_add_null(json *obj, const char *key);
json *json_add_object(json *obj, const char *key);
json *json_add_array(json *obj, const char *key);

#endif
