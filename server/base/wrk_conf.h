/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of a worker, and the descriptors that the supervisor hands to it.
 *
 * A plain struct in a sealed memory file: both binaries come from one build and the
 * size is checked, so the format need not evolve.  Filled by srv_worker.c, read once by
 * wrk_main.c.  The supervisor has verified every field (the ticket's signature, the
 * caps); the worker trusts it.
 */
#ifndef WRK_CONF_H
#define WRK_CONF_H

#include "attach_proof.h"
#include "ticket.h"
#include "tls.h"
#include "wire_format.h"
#include "wire_image.h"

#include <limits.h>
#include <stdint.h>

#define WRK_CONF_MAGIC 0x67707731u /* "gpw1" */

/* Descriptors of a fresh worker beside 0..2; everything else is closed. */
#define WRK_FD_CONN 3    /* the client's socket, right behind the AttachRequest */
#define WRK_FD_CONF 4    /* struct wrk_conf */
#define WRK_FD_SEGMENT 5 /* struct wrk_segment of the session, read only */
#define WRK_FD_REQUEST 6 /* to the supervisor: wrk_request.h */
#define WRK_FD_DESK 7    /* struct wrk_desk: ours, the supervisor reads it */
#define WRK_FD_NOTICE 8  /* struct wrk_notice, read only */
#define WRK_FD_WAKE 9    /* an eventfd: look at the desk */
#define WRK_FD_LINK 10   /* from the supervisor: links that replace the client's */
#define WRK_FD_ADOPT 11  /* with an adoption window: memory of a successor */
#define WRK_FD_LOG 12    /* to the supervisor: becomes standard error */
#define WRK_FDS_END 13

/* In front of the number of a further descriptor, of the program itself: the path by
 * which it is started. */
#define WRK_PROGRAM_PATH "/proc/self/fd/"

/* Session name, ".c", number. */
#define WRK_ATTACHMENT_MAX (TICKET_NAME_MAX + 16)

/* Limits of a context, in the order of CUlimit. */
#define WRK_LIMITS 16

/* What every context on a card reports.  The probe reads it from a context of its own,
 * because making one costs a real driver much time and memory. */
struct wrk_facts {
    int32_t priority_least;
    int32_t priority_greatest;
    uint32_t api_version;
    uint32_t pad;
    uint64_t limits[WRK_LIMITS];
};

struct wrk_conf {
    uint32_t magic;
    uint32_t size;
    uint32_t parent_pid; /* another parent at start: it died meanwhile */
    uint32_t slot;       /* this attachment's entry in the segment */
    uint64_t session_id;
    char driver[PATH_MAX]; /* as given to --driver */
    char session[TICKET_NAME_MAX];
    char attachment[WRK_ATTACHMENT_MAX]; /* "s7.c2" */
    char program[64];                    /* as sent by the client, for the log */
    char user[64];                       /* become this user or number, or "" */
    char exports[128];                   /* the session's folder on software cards */
    char readable[1024];                 /* further paths that the driver reads */
    uint64_t memory;     /* private memory beside the driver's at start; 0: no limit */
    uint64_t file_bytes; /* of any one file; 0: no limit */
    struct ticket_slice slices[TICKET_SLICES_MAX];
    struct wrk_facts facts[TICKET_SLICES_MAX];
    uint32_t card_sms[TICKET_SLICES_MAX]; /* multiprocessors, of the whole card */
    uint32_t n_slices;
    uint32_t policy;      /* enum ticket_policy */
    uint32_t wire_minor;  /* the client's */
    uint32_t spatial;     /* enum ticket_spatial */
    uint32_t offline;     /* 1: runs only while no online session wants the card */
    uint32_t shm;         /* 1: go on over shared memory */
    uint32_t wakefds;     /* 1: the client takes wake-up descriptors with it */
    uint32_t rdma;        /* 1: offer RDMA */
    uint32_t payloads;    /* values as in attach.proto, not checked */
    char rdma_at[256];    /* where: "auto", or addresses with commas between */
    char gpudirect[16];   /* "auto", "dmabuf", "peermem", "off" */
    uint32_t pageable;    /* 1: cards may reach all memory of this process */
    uint32_t links;       /* servers that the client attaches to for this session */
    uint32_t link;        /* which of them we are, below WIRE_LINKS_MAX */
    uint32_t device_base; /* devices of those before us */
    uint8_t peer_cookie[WIRE_PEER_COOKIE];
    uint32_t cuda_version; /* newest API the client's stub speaks, for the log */
    uint32_t images;       /* 1: the supervisor keeps images by content */
    uint8_t image_nonce[WIRE_IMAGE_NONCE];
    uint8_t lane_cookie[WIRE_STRIPE_COOKIE];
    uint32_t proven; /* 1: the client makes its cookies itself (attach_proof.h) */
    uint8_t rdma_cookie[WIRE_RDMA_COOKIE]; /* then */
    uint32_t link_timeout_s;               /* xport_set_link_timeout() */
    uint32_t resume_s; /* how long to keep a broken link's state; 0: not at all */
    uint8_t resume_key[ATTACH_KEY_SIZE]; /* what the client needs, if not proven */
    uint32_t resume_stripes;             /* 1: the client can have stripes then */
    uint32_t resume_rdma;    /* 1: and it replaces a link over RDMA as well */
    uint32_t own_user;       /* 1: no other session's workers are this user */
    uint32_t soft;           /* 1: the driver is a software card's */
    uint32_t sandbox_log;    /* 1: log system calls instead of denying them */
    struct tls_keys tls;     /* of the client's connection; no suite: clear text */
    uint32_t adopt_window_s; /* how long there may be no supervisor */
    uint32_t work_limit_s; /* of work that others wait for, for this session's class */
    uint32_t tell_started; /* 1: the supervisor expects WRK_REQUEST_STARTED */
    uint32_t control;      /* 1: the client may make a control connection */
    uint32_t rereads;      /* 1: the client knows XPORT_BLOCK_REREAD */
};

#endif
