/*
 * cjson_loop.c - the bare loop that `make perf` compares with: a line in, parsed
 * and printed by cJSON as its own documentation does it, a line out.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, stdin) > 0) {
		cJSON *row = cJSON_Parse(line);
		char *text = row ? cJSON_PrintUnformatted(row) : NULL;

		if (!text)
			return 1;
		puts(text);
		free(text);
		cJSON_Delete(row);
	}
	free(line);
	return 0;
}
