/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_json.h"

#include "cli_output.h"
#include "cli_yaml.h"
#include "gp_base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* @value at a depth of so many blanks. */
static void
put(struct cli_json *json, json_t *value, int depth)
{
    CLEANUP_FREE char *text =
        value ? json_dumps(value, CLI_JSON_FLAGS | JSON_ENCODE_ANY) : NULL;

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

/* @name NULL: an element of an array. */
static void
put_yaml(struct cli_json *json, const char *name, json_t *value)
{
    json->failed |= !value;
    if (value && name)
        cli_yaml_member(stdout, name, value);
    else if (value)
        cli_yaml_element(stdout, value);
    json_decref(value);
}

static void
name_member(struct cli_json *json, const char *name)
{
    printf("%s\n  \"%s\": ", json->member ? "," : "", name);
    json->member = true;
}

void
cli_json_begin(struct cli_json *json, bool yaml)
{
    *json = (struct cli_json){.yaml = yaml};
    if (!yaml)
        putchar('{');
}

void
cli_json_member(struct cli_json *json, const char *name, json_t *value)
{
    if (json->yaml) {
        put_yaml(json, name, value);
        return;
    }
    name_member(json, name);
    put(json, value, 2);
}

void
cli_json_array(struct cli_json *json, const char *name)
{
    json->element = false;
    if (json->yaml) {
        printf("%s:", name);
        return;
    }
    name_member(json, name);
    putchar('[');
}

void
cli_json_element(struct cli_json *json, json_t *value)
{
    if (json->yaml) {
        fputs(json->element ? "" : "\n", stdout);
        put_yaml(json, NULL, value);
    } else {
        printf("%s\n    ", json->element ? "," : "");
        put(json, value, 4);
    }
    json->element = true;
}

void
cli_json_array_end(struct cli_json *json)
{
    if (json->yaml)
        fputs(json->element ? "" : " []\n", stdout);
    else
        fputs(json->element ? "\n  ]" : "]", stdout);
}

int
cli_json_end(struct cli_json *json)
{
    if (!json->yaml)
        printf("\n}\n");
    return json->failed ? -ENOMEM : 0;
}
