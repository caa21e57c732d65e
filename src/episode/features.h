/* features.h - what a data card declares of each column. */
#ifndef EPISODE_FEATURES_H
#define EPISODE_FEATURES_H

#include "base/buf.h"
#include "episode/schema.h"

/* The YAML list under `features:` for FT_EPISODE or FT_HOLDOUT, each line
 * indented by `indent` spaces, appended. Open maps become structs over every
 * name that an op's axis or a kernel's parameter has; messages are structs
 * over the fields of all kinds. Lists of structs are spelled `list`, lists of
 * integers `sequence`: the forms that Hugging Face datasets 2 to 5 all read. */
void features_yaml(enum field_type row, int indent, struct buf *out);

#endif
