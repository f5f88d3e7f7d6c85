/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: the process that outlives the supervisor, so that workers can.
 *
 *     gpupool-server ---- gpupool-keeper
 *                           |-- gpupool-worker s7.c1
 *                           `-- gpupool-worker s7.c2
 *
 * It is the parent of the workers, which the kernel kills when it dies, and holds a
 * descriptor of all that a successor of the supervisor needs: the workers' sockets and
 * memory, listening sockets, kept memory (srv_kept.h).  It understands none of that and
 * reads no byte of a client, a worker or the network.  It has one supervisor at a time,
 * which comes over the Unix socket of the state directory and has to be of the same
 * user.  With none it waits for the adoption window; after that it ends the workers and
 * itself, so that a server that nobody starts again occupies no card.
 *
 * A process of its own, one thread; srv_keeper.h is the supervisor's side.
 */
#ifndef SRV_KEEPER_MAIN_H
#define SRV_KEEPER_MAIN_H

/* Returns the exit status. */
int srv_keeper_main(void);

#endif
