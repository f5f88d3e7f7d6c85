/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_json.h"

#include "gp_base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* @value at a depth of so many blanks. */
static void
put(struct cli_json *json, json_t *value, int depth)
{
    CLEANUP_FREE char *text =
        value ? json_dumps(value, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENCODE_ANY)
              : NULL;

    json->failed |= !text;
    json_decref(value);
    for (char *line = text, *end; line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        fputs(line, stdout);
        if (end)
            printf("\n%*s", depth, "");
    }
}

static void
name_member(struct cli_json *json, const char *name)
{
    printf("%s\n  \"%s\": ", json->member ? "," : "", name);
    json->member = true;
}

void
cli_json_begin(struct cli_json *json)
{
    *json = (struct cli_json){0};
    putchar('{');
}

void
cli_json_member(struct cli_json *json, const char *name, json_t *value)
{
    name_member(json, name);
    put(json, value, 2);
}

void
cli_json_array(struct cli_json *json, const char *name)
{
    name_member(json, name);
    putchar('[');
    json->element = false;
}

void
cli_json_element(struct cli_json *json, json_t *value)
{
    printf("%s\n    ", json->element ? "," : "");
    json->element = true;
    put(json, value, 4);
}

void
cli_json_array_end(struct cli_json *json)
{
    printf(json->element ? "\n  ]" : "]");
}

int
cli_json_end(struct cli_json *json)
{
    printf("\n}\n");
    return json->failed ? -ENOMEM : 0;
}
