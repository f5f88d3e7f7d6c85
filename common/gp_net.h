/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses, listening and connecting: "host:port" is TCP over IPv4 or IPv6,
 * "unix:/path" a Unix stream socket.  "srv:NAME", for connecting only, is TCP to a host
 * and port that DNS has for the service (gp_srv.h): NAME is that of the service
 * ("_gpupool._tcp.example.org"), or a domain in which it is called so.
 *
 * No state, any thread.  Every descriptor is close-on-exec.  Not framing: see gp_msg.h
 * for control messages and transport/ for the data path.
 */
#ifndef GP_NET_H
#define GP_NET_H

#include "gp_base.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

struct gp_err;

#define GP_NET_SRV "srv:"   /* how such an address begins */
#define GP_NET_NAME_MAX 272 /* longest host name, brackets, port */

struct gp_net_addr {
    char host[256]; /* name or address, without brackets */
    char port[8];
};

/* "host:port", "[v6]:port", ":port" (all addresses), "host" (needs @dflt_port != 0). */
int gp_net_parse(const char *text, unsigned dflt_port, struct gp_net_addr *ret,
                 struct gp_err *err);

/* A non-blocking listening socket.  Port 0 picks one; gp_net_port() tells which.  A
 * Unix socket that a dead process left behind at the path is replaced, a live one is
 * not. */
int gp_net_listen(const char *text, unsigned dflt_port, int backlog, int *ret_fd,
                  struct gp_err *err);

/* Connect to the first address that answers, trying all of them until @deadline_ns
 * (gp_now_ns clock); each host of a service gets a part of that time.  The socket is
 * blocking when @blocking, TCP_NODELAY is set. The words name the address and the
 * cause. */
int gp_net_connect(const char *text, unsigned dflt_port, uint64_t deadline_ns,
                   bool blocking, int *ret_fd, struct gp_err *err);

/* Accept one connection: non-blocking, close-on-exec, no delay.  -EAGAIN: none. */
int gp_net_accept(int listen_fd, int *ret_fd);

/* Has the peer of a TCP connection hung up, whatever it sent before?  False also of
 * what is no TCP connection. */
bool gp_net_hung_up(int fd);

unsigned gp_net_port(int fd); /* local port, 0 when unknown */

/* A keyed hash of the peer's address: of all of IPv4's, of the /64 network of IPv6's,
 * since one host chooses the rest; of a Unix socket's, the peer's user. */
uint64_t gp_net_peer_hash(int fd);
/* What is hashed there, for a scheduler that counts it with its own key (the hash is
 * gp_hash_bytes() of it); the number of bytes, 0 when the peer is unknown. */
#define GP_NET_PEER_BYTES 8
size_t gp_net_peer_bytes(int fd, uint8_t ret[GP_NET_PEER_BYTES]);

/* "address:port" of the other (or own) end, "a local process" behind a Unix socket, "?"
 * if unknown; @buf >= GP_NET_NAME_MAX. */
const char *gp_net_peer_name(int fd, char *buf, size_t size);
const char *gp_net_own_name(int fd, char *buf, size_t size);

/* Whether closing a TCP socket, as by the process's death, throws away what was not
 * sent and tells the peer at once, which otherwise learns it behind the last byte. */
void gp_net_reset_on_close(int fd, bool on);

/* Close a socket that another process has had, which may have set SO_LINGER: a close
 * that waits until the peer has taken everything.  Other descriptors are just closed.
 */
void gp_net_close_now(int fd);

/* Whether a Unix socket takes descriptors that its peer sends; new connections inherit
 * it from the listening socket.  Sockets of gp_net_listen() take none: the kernel would
 * close those that nobody asked for in the receiver's recv(), and the close of a TCP
 * socket of the peer's choice waits as long as the peer has said (SO_LINGER).  Before
 * Linux 6.16 a no-op. */
void gp_net_pass_fds(int fd, bool on);

/* Do both ends of the TCP socket have one address? */
bool gp_net_same_host(int fd);

/* Wait until @fd is ready for @events (poll(2)); 0, -ETIMEDOUT or -errno. */
int gp_net_wait(int fd, short events, uint64_t deadline_ns);

#endif
