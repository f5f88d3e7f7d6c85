/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of the environment that are nearly one of ours: a name with a letter too
 * many or two exchanged is read by nobody, and nothing would say so.
 *
 * Others that begin with GPUPOOL_ may be the program's own, or a container platform's.
 */
#ifndef CLI_VARIABLES_H
#define CLI_VARIABLES_H

/* Call @fn with the name of each, and with the one that was probably meant. */
void cli_variables_near(void (*fn)(void *arg, const char *name, const char *meant),
                        void *arg);

/* A line on stderr for each. */
void cli_variables_hint(void);

#endif
