/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a pool as JSON.  The keys are an interface: they are only added to. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "control.pb-c.h"

/* Print it on stdout; -ENOMEM. */
int cli_json_print(const Gpupool__Ctl__CtlStatusReply *status);

#endif
