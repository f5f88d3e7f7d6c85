/* SPDX-License-Identifier: Apache-2.0 */
/* Which transport a program here would take to a server, for `gpupool explain`. */
#ifndef CLI_TRANSPORT_H
#define CLI_TRANSPORT_H

#include "control.pb-c.h"

/* Print it, with the reasons against the others. */
void cli_transport_explain(const Gpupool__Ctl__CtlServerStatus *server);

#endif
