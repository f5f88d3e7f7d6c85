/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to the CUDA runtime's validity check, and nothing else of the product.
 *
 * What it is: when a runtime starts, it asks the driver library three times for a
 * keyed hash over facts that both know (versions, process, thread, table addresses,
 * devices) and refuses to work when the last answer is wrong.  Why it exists here: the
 * values are those of the client process, so the genuine driver behind the pool server
 * cannot answer; without an answer no runtime program can use the card it has a right
 * to.  Read the CUDA EULA for your own case; `make VALIDITY=no` leaves this out, and
 * then programs that use only the driver API work, those that use the runtime do not.
 *
 * Nothing is owned; any thread.
 */
#ifndef STUB_VALIDITY_H
#define STUB_VALIDITY_H

#include <stddef.h>
#include <stdint.h>

struct stub_validity_device {
    uint8_t uuid[16];
    int32_t domain;
    int32_t bus;
    int32_t device;
};

struct stub_validity_facts {
    uint32_t driver_version;
    uint32_t runtime_version;
    uint32_t pid;
    uint32_t thread;
    uint64_t cudart_table;
    uint64_t check_table;
    uint64_t check_function;
    uint64_t seconds;
    const struct stub_validity_device *devices;
    size_t n_devices;
};

/* The 16 bytes that a runtime expects for @facts. */
void stub_validity_answer(const struct stub_validity_facts *facts, uint8_t out[16]);

/* MD2 (RFC 1319) of @len bytes, here because nothing else should use it. */
void stub_validity_md2(const void *data, size_t len, uint8_t out[16]);

/* HMAC (RFC 2104) with MD2 and a key of at most 16 bytes. */
void stub_validity_hmac(const void *key, size_t key_len, const void *data, size_t len,
                        uint8_t out[16]);

#endif
