/* check.h - what cJSON lets through and a row must not have. */
#ifndef ROW_CHECK_H
#define ROW_CHECK_H

#include "row/json.h"

/* A key that some object of the tree has twice, or NULL. Also turns -0 into 0,
 * which versions of cJSON print differently. */
const char *check_tree(json *root);

#endif
