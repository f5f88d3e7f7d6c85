/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupool kube doctor: why a pod of the cluster does not get its card.
 *
 * Asks the API server through kubectl, changes nothing, and prints a line for each
 * thing that it looks at.
 */
#ifndef CLI_KUBE_DOCTOR_H
#define CLI_KUBE_DOCTOR_H

/* @ns: the namespace of the pool.  Returns an exit status: CLI_FAILED when something is
 * wrong, or could not be looked at. */
int cli_kube_doctor(const char *ns);

#endif
