/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One JSON object on stdout, or the same as YAML, written while its parts arrive:
 * `gpupool status --json` of a large pool holds a page of it at a time.
 *
 * What is in the parts is ctl_json.h's.  Failures of stdout are its own to tell;
 * -ENOMEM is told by the end.
 */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <jansson.h>
#include <stdbool.h>

struct cli_json {
    bool yaml;
    bool member, element; /* one has been written */
    bool failed;          /* out of memory */
};

void cli_json_begin(struct cli_json *json, bool yaml);
/* A member of the object; @value is dropped, NULL: out of memory. */
void cli_json_member(struct cli_json *json, const char *name, json_t *value);
/* A member that is an array: begin it, add to it, end it. */
void cli_json_array(struct cli_json *json, const char *name);
void cli_json_element(struct cli_json *json, json_t *value);
void cli_json_array_end(struct cli_json *json);
int cli_json_end(struct cli_json *json);

#endif
