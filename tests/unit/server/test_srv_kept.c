/* SPDX-License-Identifier: Apache-2.0 */
/* Kept memory of other versions: what is longer, shorter, older, newer or none. */
#include "ut.h"

#include "srv_kept.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#ifndef F_SEAL_EXEC /* Linux 6.3, which sets it itself where vm.memfd_noexec is set */
#define F_SEAL_EXEC 0x0020
#endif

/* What a version knows, and what the one behind it has appended. */
struct known {
    struct srv_kept_head head;
    uint64_t first, second;
};

struct more {
    struct known known;
    uint64_t third, fourth;
};

/* A file as some version made it; the head says @says bytes. */
static int
file_of(uint32_t version, size_t file_size, uint32_t says, int seals)
{
    struct more all = {.known = {.head = {.magic = SRV_KEPT_MAGIC,
                                          .version = version,
                                          .kind = SRV_KEPT_DESK,
                                          .size = says},
                                 .first = 1,
                                 .second = 2},
                       .third = 3,
                       .fourth = 4};
    int fd = memfd_create("kept", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)file_size), 0);
    assert_true(pwrite(fd, &all, gp_min(file_size, sizeof(all)), 0) > 0);
    /* As under vm.memfd_noexec: else the kernel takes the right to write, too. */
    assert_int_equal(fchmod(fd, 0600), 0);
    if (fcntl(fd, F_ADD_SEALS, seals) < 0) {
        assert_int_equal(errno, EINVAL);
        assert_true(seals & F_SEAL_EXEC);
        print_message("skip: this kernel knows no F_SEAL_EXEC\n");
        skip();
    }
    return fd;
}

static int
maps(int fd, size_t size)
{
    void *map = NULL;
    int r = srv_kept_map(fd, SRV_KEPT_DESK, size, &map);

    srv_kept_unmap(map, size);
    return r;
}

/* What the second reader sees when the first one has worked there. */
static struct more
through(int fd, size_t first, size_t second)
{
    struct more seen = {0};
    void *map = NULL;

    assert_int_equal(maps(fd, first), 0);
    assert_int_equal(srv_kept_map(fd, SRV_KEPT_DESK, second, &map), 0);
    memcpy(&seen, map, second);
    srv_kept_unmap(map, second);
    close(fd);
    return seen;
}

static void
file_of_form_4_is_read(void **state)
{
    int fd = file_of(4, sizeof(struct known), sizeof(struct known), SEALS);
    struct more seen = through(fd, sizeof(struct known), sizeof(struct known));

    assert_int_equal(seen.known.first, 1);
    assert_int_equal(seen.known.second, 2);
    assert_int_equal(seen.known.head.version, 4); /* one of then could have it back */
}

static void
file_has_room_for_fields_of_later_versions(void **state)
{
    void *map = NULL;
    struct stat st;
    int fd = -1;

    assert_int_equal(srv_kept_new(SRV_KEPT_DESK, sizeof(struct known), &fd, &map, NULL),
                     0);
    ((struct known *)map)->first = 1;
    srv_kept_unmap(map, sizeof(struct known));
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(st.st_size >= (off_t)(sizeof(struct known) + SRV_KEPT_ROOM));
    assert_int_equal(srv_kept_map(fd, SRV_KEPT_DESK, sizeof(struct more), &map), 0);
    assert_int_equal(((struct more *)map)->known.first, 1);
    assert_int_equal(((struct more *)map)->third, 0);
    assert_int_equal(((struct more *)map)->known.head.size, sizeof(struct more));
    srv_kept_unmap(map, sizeof(struct more));
    close(fd);
}

static void
fields_that_the_writer_did_not_know_are_zero(void **state)
{
    struct more seen = through(file_of(5, 8192, sizeof(struct known), SEALS),
                               sizeof(struct more), sizeof(struct more));

    assert_int_equal(seen.known.second, 2);
    assert_int_equal(seen.third, 0);
    assert_int_equal(seen.fourth, 0);
}

/* One that knew less has worked there meanwhile: nobody has kept the rest up to date.
 */
static void
fields_of_a_version_between_are_not_believed(void **state)
{
    struct more seen = through(file_of(5, 8192, sizeof(struct more), SEALS),
                               sizeof(struct known), sizeof(struct more));

    assert_int_equal(seen.known.second, 2);
    assert_int_equal(seen.third, 0);
    seen = through(file_of(5, 8192, sizeof(struct more), SEALS), sizeof(struct more),
                   sizeof(struct more));
    assert_int_equal(seen.third, 3);
}

static void
file_that_the_kernel_has_sealed_further_is_read(void **state)
{
    int fd = file_of(SRV_KEPT_VERSION, 8192, sizeof(struct known), SEALS | F_SEAL_EXEC);

    assert_int_equal(maps(fd, sizeof(struct known)), 0);
    close(fd);
}

static void
what_cannot_be_read_is_refused(void **state)
{
    static const struct {
        uint32_t version;
        size_t file_size;
        uint32_t says;
        int seals;
    } bad[] = {
        {SRV_KEPT_VERSION + 1, 8192, sizeof(struct known), SEALS},
        {SRV_KEPT_OLDEST - 1, 8192, sizeof(struct known), SEALS},
        {5, 8192, 8193, SEALS},                   /* longer than the file */
        {5, 8192, 8, SEALS},                      /* shorter than its head */
        {5, sizeof(struct known) - 8, 16, SEALS}, /* no room */
        {5, 8192, sizeof(struct known), F_SEAL_GROW | F_SEAL_SEAL}, /* may shrink */
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        int fd = file_of(bad[i].version, bad[i].file_size, bad[i].says, bad[i].seals);

        assert_int_equal(maps(fd, sizeof(struct known)), -EPROTO);
        close(fd);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_of_form_4_is_read),
        cmocka_unit_test(file_has_room_for_fields_of_later_versions),
        cmocka_unit_test(fields_that_the_writer_did_not_know_are_zero),
        cmocka_unit_test(fields_of_a_version_between_are_not_believed),
        cmocka_unit_test(file_that_the_kernel_has_sealed_further_is_read),
        cmocka_unit_test(what_cannot_be_read_is_refused),
    };

    return cmocka_run_group_tests_name("srv_kept", tests, NULL, NULL);
}
