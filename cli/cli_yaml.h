/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON value printed as YAML, or as text for people: there "memory_bytes: 67108864"
 * is "memory: 64 MiB".  No state, any thread.
 */
#ifndef CLI_YAML_H
#define CLI_YAML_H

#include "gp_base.h"

#include <jansson.h>
#include <stdio.h>

/* An object. */
void cli_yaml_print(FILE *f, const json_t *value);
void cli_yaml_print_for_people(FILE *f, const json_t *value);

/* The parts of an object that is too large to hold: a member of it, and, after its name
 * and the end of that line, an element of a member that is an array. */
void cli_yaml_member(FILE *f, const char *name, const json_t *value);
void cli_yaml_element(FILE *f, const json_t *value);

#endif
