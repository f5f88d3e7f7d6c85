/* SPDX-License-Identifier: Apache-2.0 */
/* Images that are named instead of sent, with a supervisor played by the test. */
#include "ut.h"

#include "gp_image.h"
#include "wire_result.h"
#include "wrk.h"
#include "wrk_image.h"
#include "wrk_request.h"
#include "wrk_supervisor_channel.h"
#include "wrk_transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

#ifndef F_SEAL_EXEC /* Linux 6.3, which sets it itself where vm.memfd_noexec is set */
#define F_SEAL_EXEC 0x0020
#endif
#define LEN (100u * 1024)

static char ptx[LEN + 1];
static struct wrk_priv priv = {.conf.images = 1};
static struct wrk worker = {.priv = &priv};
static int supervisor = -1;

/* What the link would deliver as payload. */
int
wrk_transfer_receive(struct wrk *w, struct wrk_reply *rep, void *buf)
{
    memcpy(buf, ptx, rep->bulk);
    rep->bulk = 0;
    return 0;
}

/* Without further connections of a client between the answers. */
int
wrk_supervisor_ask(struct wrk_request *ask, int fd, int *ret_fd)
{
    int r = wrk_request_send(WRK_FD_REQUEST, ask, fd, 0);

    return r < 0 ? r : wrk_request_recv(WRK_FD_REQUEST, ask, ret_fd, MSG_DONTWAIT);
}

static int
set_up(void **state)
{
    int pair[2];

    memset(ptx, ' ', LEN);
    memcpy(ptx, ".version 7.0\n.target sm_70\n//", 29);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0 ||
        dup2(pair[1], WRK_FD_REQUEST) < 0)
        return -1;
    close(pair[1]);
    supervisor = fcntl(pair[0], F_DUPFD_CLOEXEC, 50);
    close(pair[0]);
    return supervisor < 0;
}

static struct wire_image_ref
ref_of(const char *bytes)
{
    struct iovec piece = {(void *)(uintptr_t)bytes, LEN};
    struct wire_image_ref ref = {.magic = WIRE_IMAGE_REF_MAGIC, .len = LEN};
    struct wire_image_id id;

    wire_image_identify(&piece, 1, &id);
    memcpy(ref.name, id.name, sizeof(ref.name));
    return ref;
}

/* The answer is put into the socket before it is asked for. */
static void
supervisor_answers_with(const char *bytes, const struct wrk_images_note *note,
                        uint32_t own, int seals)
{
    struct wrk_request answer = {.kind = WRK_REQUEST_IMAGE, .own = own};
    int fd = -1;

    if (bytes) {
        fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(write(fd, bytes, LEN + 1), LEN + 1);
        if (note)
            assert_int_equal(write(fd, note, sizeof(*note)), sizeof(*note));
        if (fcntl(fd, F_ADD_SEALS, seals) < 0) {
            assert_int_equal(errno, EINVAL);
            assert_true(seals & F_SEAL_EXEC);
            print_message("skip: this kernel knows no F_SEAL_EXEC\n");
            skip();
        }
    }
    assert_int_equal(wrk_request_send(supervisor, &answer, fd, 0), 0);
    if (fd >= 0)
        close(fd);
}

static void
supervisor_answers(const char *bytes, uint32_t own, int seals)
{
    supervisor_answers_with(bytes, NULL, own, seals);
}

static CUresult
take_parts(const struct wire_image_ref *ref, struct wrk_image *image,
           const unsigned long long *parts, uint32_t n_parts)
{
    struct wrk_reply rep = {0};
    struct wrk_request asked;
    int fd;
    CUresult r = wrk_image_take(&worker, &rep, image, (const uint8_t *)ref,
                                sizeof(*ref), parts, n_parts);

    assert_int_equal(wrk_request_recv(supervisor, &asked, &fd, MSG_DONTWAIT), 0);
    assert_int_equal(asked.kind, WRK_REQUEST_IMAGE);
    assert_memory_equal(asked.name, ref->name, sizeof(asked.name));
    return r;
}

static CUresult
take(const struct wire_image_ref *ref, struct wrk_image *image)
{
    return take_parts(ref, image, NULL, 0);
}

static void
named_image_is_taken_from_the_host(void **state)
{
    struct wire_image_ref ref = ref_of(ptx);
    struct wrk_image image = {0};

    supervisor_answers(ptx, 0, SEALS);
    assert_int_equal(take(&ref, &image), CUDA_SUCCESS);
    assert_memory_equal(image.code, ptx, LEN + 1);
    wrk_image_fini(&image);
}

static void
file_that_the_kernel_has_sealed_further_is_taken(void **state)
{
    struct wire_image_ref ref = ref_of(ptx);
    struct wrk_image image = {0};

    supervisor_answers(ptx, 0, SEALS | F_SEAL_EXEC);
    assert_int_equal(take(&ref, &image), CUDA_SUCCESS);
    wrk_image_fini(&image);
}

/* Another session's worker was taken over and put something else under the name. */
static void
image_that_is_not_what_its_name_says_is_refused(void **state)
{
    struct wire_image_ref ref = ref_of(ptx);
    struct wrk_image image = {0};
    char *false_one = strdup(ptx);

    assert_non_null(false_one);
    false_one[LEN - 1] = 'x';
    supervisor_answers(false_one, 0, SEALS);
    assert_int_equal(take(&ref, &image), WIRE_RESULT_WANT_IMAGE);
    wrk_image_fini(&image);
    free(false_one);
}

static void
file_that_could_change_is_not_mapped(void **state)
{
    struct wire_image_ref ref = ref_of(ptx);
    struct wrk_image image = {0};

    supervisor_answers(ptx, 1, F_SEAL_WRITE);
    assert_int_equal(take(&ref, &image), WIRE_RESULT_WANT_IMAGE);
    ref.len = LEN - 8;
    supervisor_answers(ptx, 1, SEALS);
    assert_int_equal(take(&ref, &image), WIRE_RESULT_WANT_IMAGE);
    wrk_image_fini(&image);
}

/* The worker computes the name of what it hands over: a client's word is not taken. */
static void
image_that_was_wanted_is_handed_over_under_its_true_name(void **state)
{
    struct wire_image_ref ref = ref_of(ptx), lie = ref;
    struct wrk_image none = {0}, image = {0};
    struct wrk_reply rep = {.bulk = LEN};
    struct wrk_images_note note;
    struct wrk_request kept;
    char *bytes;
    int fd;

    lie.name[0] ^= 1;
    supervisor_answers(NULL, 0, 0);
    assert_int_equal(take(&lie, &none), WIRE_RESULT_WANT_IMAGE);
    wrk_image_fini(&none);
    assert_int_equal(wrk_image_take(&worker, &rep, &image, NULL, LEN, NULL, 0), 0);
    assert_memory_equal(image.code, ptx, LEN + 1);
    wrk_image_variables_found(&image, 86, 12345);
    wrk_image_keep(&image, NULL, 0);
    wrk_image_fini(&image);
    assert_int_equal(wrk_request_recv(supervisor, &kept, &fd, 0), 0);
    assert_int_equal(kept.kind, WRK_REQUEST_KEEP);
    assert_memory_equal(kept.name, ref.name, sizeof(kept.name));
    assert_int_equal(fcntl(fd, F_GET_SEALS) & SEALS, SEALS);
    bytes = mmap(NULL, LEN + 1, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_memory_equal(bytes, ptx, LEN + 1);
    munmap(bytes, LEN + 1);
    assert_int_equal(pread(fd, &note, sizeof(note), LEN + 1), sizeof(note));
    assert_int_equal(note.sm, 86);
    assert_int_equal(note.bytes, 12345);
    close(fd);
}

/* Nobody may keep another session from its programs by what it says of their size. */
static void
what_was_found_of_variables_is_accepted_where_it_harms_nobody(void **state)
{
    const uint64_t much = UINT64_C(1) << 40, little = 1000;
    static const struct {
        uint32_t own;
        uint64_t sm;
        bool much, known;
    } cases[] = {
        {1, 86, true, true},  {1, 86, false, true},  {0, 86, false, true},
        {0, 86, true, false}, {1, 90, false, false}, {1, 0, false, false},
    };
    struct wire_image_ref ref = ref_of(ptx);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct wrk_images_note note = {cases[i].sm, cases[i].much ? much : little};
        struct wrk_image image = {0};
        uint64_t bytes = 0;

        supervisor_answers_with(ptx, &note, cases[i].own, SEALS);
        assert_int_equal(take(&ref, &image), CUDA_SUCCESS);
        assert_int_equal(wrk_image_variables_known(&image, 86, &bytes), cases[i].known);
        assert_int_equal(bytes, cases[i].known ? note.bytes : 0);
        wrk_image_fini(&image);
    }
}

static void
image_without_a_note_says_nothing_of_its_variables(void **state)
{
    struct wire_image_ref ref = ref_of(ptx);
    struct wrk_image image = {0};
    uint64_t bytes;

    supervisor_answers(ptx, 1, SEALS);
    assert_int_equal(take(&ref, &image), CUDA_SUCCESS);
    assert_false(wrk_image_variables_known(&image, 86, &bytes));
    wrk_image_fini(&image);
}

/* What was found out about an image holds for the pieces that it was found with, also
 * where the session itself has brought it. */
static void
pieces_are_those_that_the_name_was_made_of(void **state)
{
    static const unsigned long long cut[] = {1000, LEN - 1000}, whole[] = {LEN};
    struct wrk_images_note note = {.sm = 86, .bytes = 1000};
    struct wire_image_ref ref = ref_of(ptx);
    struct wrk_image image = {0}, pieces = {0}, again = {0};
    uint64_t bytes;

    ptx[999] = 0; /* each piece is a text */
    ref = ref_of(ptx);
    supervisor_answers_with(ptx, &note, 1, SEALS);
    assert_int_equal(take_parts(&ref, &image, cut, 2), WIRE_RESULT_WANT_IMAGE);
    wrk_image_fini(&image);
    supervisor_answers_with(ptx, &note, 1, SEALS);
    assert_int_equal(take_parts(&ref, &pieces, whole, 1), CUDA_SUCCESS);
    assert_false(wrk_image_variables_known(&pieces, 86, &bytes));
    wrk_image_fini(&pieces);
    note.sm |= UINT64_C(1) << 32;
    supervisor_answers_with(ptx, &note, 1, SEALS);
    assert_int_equal(take(&ref, &again), CUDA_SUCCESS);
    assert_false(wrk_image_variables_known(&again, 86, &bytes));
    wrk_image_fini(&again);
    ptx[999] = ' ';
}

/* A driver knows no length of a text. */
static void
text_that_goes_on_in_the_next_piece_is_refused(void **state)
{
    static const unsigned long long cut[] = {1000, LEN - 1000};
    struct wrk_reply rep = {.bulk = LEN};
    struct wrk_image image = {0}, good = {0};

    assert_int_equal(wrk_image_take(&worker, &rep, &image, NULL, LEN, cut, 2),
                     CUDA_ERROR_INVALID_IMAGE);
    wrk_image_fini(&image);
    ptx[999] = 0;
    rep.bulk = LEN;
    assert_int_equal(wrk_image_take(&worker, &rep, &good, NULL, LEN, cut, 2), 0);
    wrk_image_fini(&good);
    ptx[999] = ' ';
}

static void
image_that_nobody_named_is_not_handed_over(void **state)
{
    struct wrk_image image = {0};
    struct wrk_reply rep = {.bulk = LEN};
    struct wrk_request kept;
    int fd;

    assert_int_equal(wrk_image_take(&worker, &rep, &image, NULL, LEN, NULL, 0), 0);
    assert_false(image.wanted);
    wrk_image_keep(&image, NULL, 0);
    wrk_image_fini(&image);
    assert_int_equal(wrk_request_recv(supervisor, &kept, &fd, MSG_DONTWAIT), -EAGAIN);
}

static void
name_of_an_impossible_length_is_no_image(void **state)
{
    static const uint64_t lengths[] = {0, WIRE_IMAGE_NAMED_MIN - 1, WRK_IMAGE_MAX + 1,
                                       UINT64_MAX};
    struct wrk_reply rep = {0};

    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        struct wire_image_ref ref = ref_of(ptx);
        struct wrk_image image = {0};

        ref.len = lengths[i];
        assert_int_equal(wrk_image_take(&worker, &rep, &image, (const uint8_t *)&ref,
                                        sizeof(ref), NULL, 0),
                         CUDA_ERROR_INVALID_IMAGE);
        wrk_image_fini(&image);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_image_is_taken_from_the_host),
        cmocka_unit_test(file_that_the_kernel_has_sealed_further_is_taken),
        cmocka_unit_test(image_that_is_not_what_its_name_says_is_refused),
        cmocka_unit_test(file_that_could_change_is_not_mapped),
        cmocka_unit_test(image_that_was_wanted_is_handed_over_under_its_true_name),
        cmocka_unit_test(what_was_found_of_variables_is_accepted_where_it_harms_nobody),
        cmocka_unit_test(image_without_a_note_says_nothing_of_its_variables),
        cmocka_unit_test(pieces_are_those_that_the_name_was_made_of),
        cmocka_unit_test(text_that_goes_on_in_the_next_piece_is_refused),
        cmocka_unit_test(image_that_nobody_named_is_not_handed_over),
        cmocka_unit_test(name_of_an_impossible_length_is_no_image),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
