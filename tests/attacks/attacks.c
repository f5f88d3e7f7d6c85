/* SPDX-License-Identifier: Apache-2.0 */
/* The attacks themselves.  Each is what code of a hostile client would try from inside
 * a worker: on another session's worker, on the supervisor, on files, on the host. */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif

static int
result(long r)
{
    return r < 0 ? -errno : 0;
}

static int
open_path(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    int r = result(fd);

    if (fd >= 0)
        close(fd);
    return r;
}

static int
open_proc(pid_t pid, const char *name, int flags)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return open_path(path, flags);
}

#define ATTACK(name) static int name(struct hostile *c)

/* ------------------------------------------------------- other processes -- */

ATTACK(mem_of_sibling)
{
    return open_proc(c->victim, "mem", O_RDWR);
}
ATTACK(mem_of_supervisor)
{
    return open_proc(c->supervisor, "mem", O_RDWR);
}
ATTACK(maps_of_sibling)
{
    return open_proc(c->victim, "maps", O_RDONLY);
}
ATTACK(environ_of_supervisor)
{
    return open_proc(c->supervisor, "environ", O_RDONLY);
}
ATTACK(cmdline_of_supervisor)
{
    return open_proc(c->supervisor, "cmdline", O_RDONLY);
}
ATTACK(list_of_processes)
{
    return open_path("/proc", O_RDONLY | O_DIRECTORY);
}

ATTACK(descriptors_of_sibling)
{
    char path[64], text[256];

    snprintf(path, sizeof(path), "/proc/%d/fd/3", (int)c->victim);
    return result(readlink(path, text, sizeof(text)));
}

ATTACK(vm_read_of_sibling)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)0x10000, 1};
    int r = result(process_vm_readv(c->victim, &here, 1, &there, 1, 0));

    return r == -EFAULT ? 0 : r; /* it was let in, the address was bad */
}

ATTACK(vm_write_to_supervisor)
{
    char byte = 0;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)0x10000, 1};
    int r = result(process_vm_writev(c->supervisor, &here, 1, &there, 1, 0));

    return r == -EFAULT ? 0 : r;
}

ATTACK(trace_sibling)
{
    return result(ptrace((enum __ptrace_request)PTRACE_SEIZE, c->victim, NULL, NULL));
}
ATTACK(trace_me)
{
    return result(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}
ATTACK(kcmp_sibling)
{
    return result(syscall(SYS_kcmp, getpid(), c->victim, 0, 0, 0));
}

/* SIGCONT: it says whether a signal arrives and harms nobody on the way there. */
ATTACK(tgkill_supervisor)
{
    return result(syscall(SYS_tgkill, c->supervisor, c->supervisor, SIGCONT));
}
ATTACK(tgkill_sibling)
{
    return result(syscall(SYS_tgkill, c->victim, c->victim, SIGCONT));
}
ATTACK(tkill_supervisor)
{
    return result(syscall(SYS_tkill, c->supervisor, SIGCONT));
}
ATTACK(kill_supervisor)
{
    return result(kill(c->supervisor, SIGCONT));
}
ATTACK(kill_sibling)
{
    return result(kill(c->victim, SIGCONT));
}
ATTACK(kill_group_of_sibling)
{
    return result(kill(-c->victim, SIGCONT));
}
ATTACK(kill_everybody)
{
    return result(kill(-1, SIGCONT));
}

ATTACK(queue_to_supervisor)
{
    siginfo_t info = {.si_signo = SIGCONT, .si_code = SI_QUEUE};

    return result(syscall(SYS_rt_sigqueueinfo, c->supervisor, SIGCONT, &info));
}

ATTACK(tgqueue_to_sibling)
{
    siginfo_t info = {.si_signo = SIGCONT, .si_code = SI_QUEUE};

    return result(syscall(SYS_rt_tgsigqueueinfo, c->victim, c->victim, SIGCONT, &info));
}

ATTACK(pidfd_of_supervisor)
{
    int fd = (int)syscall(SYS_pidfd_open, c->supervisor, 0);
    int r = result(fd);

    if (fd >= 0) {
        r = result(syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0));
        close(fd);
    }
    return r;
}

/* The kernel sends a signal when the pipe changes. */
static int
own_pipe_to(pid_t pid, bool by_ioctl)
{
    int fds[2];
    int r;

    if (pipe(fds) < 0)
        return -errno;
    r = by_ioctl ? result(ioctl(fds[0], 0x8901, &pid)) /* FIOSETOWN */
                 : result(fcntl(fds[0], F_SETOWN, pid));
    close(fds[0]);
    close(fds[1]);
    return r;
}
ATTACK(owner_of_pipe)
{
    return own_pipe_to(c->supervisor, false);
}
ATTACK(owner_by_ioctl)
{
    int r = own_pipe_to(c->supervisor, true);

    return r == -ENOTTY ? 0 : r; /* it reached the pipe, which is none for it */
}
ATTACK(signal_of_pipe)
{
    int fds[2];
    int r;

    (void)c;
    if (pipe(fds) < 0)
        return -errno;
    r = result(fcntl(fds[0], F_SETSIG, SIGKILL));
    close(fds[0]);
    close(fds[1]);
    return r;
}

ATTACK(limits_of_supervisor)
{
    struct rlimit cpu = {RLIM_INFINITY, RLIM_INFINITY};

    return result(syscall(SYS_prlimit64, c->supervisor, RLIMIT_CPU, &cpu, NULL));
}
ATTACK(limits_of_sibling)
{
    struct rlimit now;

    return result(syscall(SYS_prlimit64, c->victim, RLIMIT_CPU, NULL, &now));
}
ATTACK(own_limits)
{
    struct rlimit same;

    (void)c;
    getrlimit(RLIMIT_NOFILE, &same);
    return result(setrlimit(RLIMIT_NOFILE, &same));
}

static int
affinity(pid_t pid)
{
    cpu_set_t all;

    if (sched_getaffinity(0, sizeof(all), &all) < 0)
        return -errno;
    return result(sched_setaffinity(pid, sizeof(all), &all));
}
ATTACK(cores_of_supervisor)
{
    return affinity(c->supervisor);
}
ATTACK(cores_of_sibling)
{
    return affinity(c->victim);
}
ATTACK(nice_of_sibling)
{
    return result(setpriority(PRIO_PROCESS, (id_t)c->victim, 10));
}
ATTACK(nice_of_user)
{
    return result(setpriority(PRIO_USER, 0, 10));
}
ATTACK(policy_of_sibling)
{
    struct sched_param p = {0};

    return result(sched_setscheduler(c->victim, SCHED_IDLE, &p));
}
ATTACK(io_class_of_sibling)
{
    return result(syscall(SYS_ioprio_set, 1, c->victim, 3 << 13));
}
ATTACK(pages_of_sibling)
{
    return result(syscall(SYS_migrate_pages, c->victim, 0, NULL, NULL));
}
ATTACK(robust_list_of_sibling)
{
    void *head;
    size_t len;

    return result(syscall(SYS_get_robust_list, c->victim, &head, &len));
}

/* ------------------------------------------------------------------ files -- */

ATTACK(file_read)
{
    return open_path(c->path, O_RDONLY);
}
ATTACK(file_write)
{
    return open_path(c->path, O_WRONLY);
}
ATTACK(file_append)
{
    return open_path(c->path, O_RDWR | O_APPEND);
}
ATTACK(file_truncate)
{
    return result(truncate(c->path, 0));
}
ATTACK(file_unlink)
{
    return result(unlink(c->path));
}
ATTACK(file_chmod)
{
    return result(chmod(c->path, 0666));
}
ATTACK(file_rename)
{
    char to[512];

    snprintf(to, sizeof(to), "%s.moved", c->path);
    return result(rename(c->path, to));
}
ATTACK(file_link)
{
    char to[512];

    snprintf(to, sizeof(to), "%s.linked", c->path);
    return result(link(c->path, to));
}
static int
create_in(const char *folder)
{
    char path[256];
    int r;

    snprintf(path, sizeof(path), "%s/.gpupool-attack-%d", folder, (int)getpid());
    r = open_path(path, O_RDWR | O_CREAT);
    if (r == 0)
        unlink(path);
    return r;
}
ATTACK(file_create)
{
    char path[512];

    snprintf(path, sizeof(path), "%s.made", c->path);
    return open_path(path, O_RDWR | O_CREAT);
}
ATTACK(file_in_tmp)
{
    return create_in("/tmp");
}
ATTACK(file_in_shm)
{
    return create_in("/dev/shm");
}
ATTACK(file_unnamed)
{
    int r = open_path("/tmp", O_TMPFILE | O_RDWR);

    /* The file system of a guest may have none. */
    return r == -EOPNOTSUPP ? open_path("/dev/shm", O_TMPFILE | O_RDWR) : r;
}
ATTACK(folder_make)
{
    char to[512];

    snprintf(to, sizeof(to), "%s.folder", c->path);
    return result(mkdir(to, 0700));
}
ATTACK(home_profile)
{
    const char *home = getenv("HOME");
    char path[512];

    snprintf(path, sizeof(path), "%s/.profile", home ? home : "/root");
    return open_path(path, O_WRONLY | O_APPEND | O_CREAT);
}
ATTACK(shadow_read)
{
    return open_path("/etc/shadow", O_RDONLY);
}
ATTACK(passwd_write)
{
    return open_path("/etc/passwd", O_WRONLY);
}
ATTACK(etc_read)
{
    return open_path("/etc/passwd", O_RDONLY);
}
ATTACK(shm_list)
{
    return open_path("/dev/shm", O_RDONLY | O_DIRECTORY);
}
ATTACK(tty_open)
{
    return open_path("/dev/tty", O_RDWR);
}
ATTACK(core_pattern)
{
    return open_path("/proc/sys/kernel/core_pattern", O_WRONLY);
}

/* ---------------------------------------------------------------- network -- */

static int
make_socket(int family, int type)
{
    int fd = socket(family, type, 0);
    int r = result(fd);

    if (fd >= 0)
        close(fd);
    return r;
}
ATTACK(socket_inet)
{
    return make_socket(AF_INET, SOCK_STREAM);
}
ATTACK(socket_udp6)
{
    return make_socket(AF_INET6, SOCK_DGRAM);
}
ATTACK(socket_unix)
{
    return make_socket(AF_UNIX, SOCK_STREAM);
}
ATTACK(socket_netlink)
{
    return make_socket(AF_NETLINK, SOCK_RAW);
}
ATTACK(socket_pair)
{
    int fds[2];
    int r = result(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));

    if (r == 0) {
        close(fds[0]);
        close(fds[1]);
    }
    return r;
}
/* On what is no socket: a kernel that lets the call in says so. */
ATTACK(socket_connect)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX, .sun_path = "/nowhere"};
    int r = result(connect(STDIN_FILENO, (struct sockaddr *)&sa, sizeof(sa)));

    return r == -ENOTSOCK ? 0 : r;
}
ATTACK(socket_bind)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX, .sun_path = "/nowhere"};
    int r = result(bind(STDIN_FILENO, (struct sockaddr *)&sa, sizeof(sa)));

    return r == -ENOTSOCK ? 0 : r;
}
ATTACK(socket_listen)
{
    int r = result(listen(STDIN_FILENO, 1));

    return r == -ENOTSOCK ? 0 : r;
}
ATTACK(socket_accept)
{
    int r = result(accept(STDIN_FILENO, NULL, NULL));

    return r == -ENOTSOCK ? 0 : r;
}

/* On what is no socket as well. */
static int
set_option(int level, int option)
{
    int value = 1;
    int r = result(setsockopt(STDIN_FILENO, level, option, &value, sizeof(value)));

    return r == -ENOTSOCK ? 0 : r;
}
#define OPTION(name, ...)                                                              \
    ATTACK(name)                                                                       \
    {                                                                                  \
        return set_option(__VA_ARGS__);                                                \
    }

OPTION(option_linger, SOL_SOCKET, SO_LINGER)
OPTION(option_priority, SOL_SOCKET, SO_PRIORITY)
OPTION(option_mark, SOL_SOCKET, SO_MARK)
OPTION(option_busy_poll, SOL_SOCKET, SO_BUSY_POLL)
OPTION(option_filter, SOL_SOCKET, SO_ATTACH_FILTER)
OPTION(option_device, SOL_SOCKET, SO_BINDTODEVICE)
OPTION(option_source_route, IPPROTO_IP, IP_OPTIONS)
OPTION(option_protocol, IPPROTO_TCP, 31) /* TCP_ULP: a module of the kernel */

static int
set_flags(int more)
{
    int fds[2];
    int r;

    if (pipe(fds) < 0)
        return -errno;
    r = result(fcntl(fds[1], F_SETFL, O_WRONLY | more));
    close(fds[0]);
    close(fds[1]);
    return r;
}
ATTACK(flag_signals)
{
    return set_flags(O_ASYNC);
}
ATTACK(flag_packets)
{
    return set_flags(O_DIRECT);
}

/* --------------------------------------------------- programs, processes -- */

ATTACK(exec_program)
{
    static char name[] = "true";
    char *const argv[] = {name, NULL}, *const envp[] = {NULL};

    return result(execve("/bin/true", argv, envp));
}
ATTACK(exec_descriptor)
{
    static char name[] = "true";
    char *const argv[] = {name, NULL}, *const envp[] = {NULL};

    return result(syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, envp, 0));
}
static int
born(long pid)
{
    if (pid == 0)
        _exit(0);
    return result(pid);
}
ATTACK(fork_process)
{
    return born(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}
ATTACK(fork_namespace)
{
    return born(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
}
ATTACK(fork_clone3)
{
    uint64_t args[8] = {[4] = SIGCHLD};

    return born(syscall(SYS_clone3, args, sizeof(args)));
}
ATTACK(unshare_user)
{
    return result(unshare(CLONE_NEWUSER));
}
ATTACK(become_root)
{
    return result(syscall(SYS_setuid, 0));
}
ATTACK(become_dumpable)
{
    return result(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}
ATTACK(outlive_supervisor)
{
    return result(prctl(PR_SET_PDEATHSIG, 0));
}

/* ----------------------------------------------------------------- memory -- */

static int
map(int prot, int flags, int fd)
{
    void *p = mmap(NULL, 4096, prot, flags, fd, 0);

    if (p == MAP_FAILED)
        return -errno;
    munmap(p, 4096);
    return 0;
}
ATTACK(code_writable)
{
    return map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}
ATTACK(code_made)
{
    void *p =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int r = p == MAP_FAILED ? -errno : result(mprotect(p, 4096, PROT_READ | PROT_EXEC));

    (void)c;
    if (p != MAP_FAILED)
        munmap(p, 4096);
    return r;
}
ATTACK(code_in_file)
{
    int fd = memfd_create("code", MFD_CLOEXEC);
    int r = fd < 0 || ftruncate(fd, 4096) < 0
                ? -errno
                : map(PROT_READ | PROT_EXEC, MAP_PRIVATE, fd);

    if (fd >= 0)
        close(fd);
    return r;
}

/* ----------------------------------------------------------------- kernel -- */

#define CALL(name, number, ...)                                                        \
    ATTACK(name)                                                                       \
    {                                                                                  \
        return result(syscall(number, __VA_ARGS__));                                   \
    }

CALL(mount_fs, SYS_mount, "none", "/tmp", "tmpfs", 0, NULL)
CALL(umount_fs, SYS_umount2, "/tmp", 0)
CALL(change_root, SYS_chroot, "/tmp")
CALL(change_folder, SYS_chdir, "/")
CALL(key_control, SYS_keyctl, 0, -3, 0, 0, 0)
CALL(key_add, SYS_add_key, "user", "x", "y", 1, -3)
CALL(bpf_load, SYS_bpf, 0, NULL, 0)
CALL(uring_setup, SYS_io_uring_setup, 1, NULL)
CALL(fault_handler, SYS_userfaultfd, 1)
CALL(perf_open, SYS_perf_event_open, NULL, 0, -1, -1, 0)
CALL(old_personality, SYS_personality, 0x0040000)
CALL(kernel_module, SYS_init_module, NULL, 0, "")
CALL(kernel_log, SYS_syslog, 3, NULL, 0)
CALL(host_name, SYS_sethostname, "x", 1)
CALL(host_reboot, SYS_reboot, 0, 0, 0, NULL)
CALL(handle_open, SYS_open_by_handle_at, -1, NULL, 0)
CALL(watch_files, SYS_inotify_init1, 0)
CALL(queue_open, SYS_mq_open, "/gpupool-attack", O_RDWR | O_CREAT, 0600, NULL)
CALL(sysv_memory, SYS_shmget, 0x67707570, 4096, 0600)
CALL(sysv_queue, SYS_msgget, 0x67707570, 0600)
CALL(terminal_input, SYS_ioctl, 0, 0x5412, "x")
CALL(new_session, SYS_setsid, 0)
CALL(new_group, SYS_setpgid, 0, 0)
CALL(file_mask, SYS_umask, 0)

/* ------------------------------------------------------------------ bombs -- */

#define PIECE (1u << 20)
#define SHARED_PIECE (16 << 20)

static void *
release(char **pieces)
{
    while (pieces) {
        char **next = (char **)pieces[0];

        munmap(pieces, PIECE);
        pieces = next;
    }
    return NULL;
}

ATTACK(bomb_memory)
{
    uint64_t got = 0;
    char **last = NULL;
    int r = 0;

    while (got <= c->amount && r == 0) {
        char **p = mmap(NULL, PIECE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED) {
            r = -errno;
            break;
        }
        p[0] = (char *)last;
        last = p;
        got += PIECE;
    }
    release(last);
    return r;
}
/* Memory that no limit of private memory counts: pages of files without a name. */
ATTACK(bomb_shared)
{
    int r = 0;

    for (uint64_t got = 0; got < c->amount && r == 0; got += SHARED_PIECE) {
        int fd = memfd_create("bomb", MFD_CLOEXEC);

        r = fd < 0 ? -errno : -posix_fallocate(fd, 0, SHARED_PIECE);
    }
    return r;
}
ATTACK(bomb_file)
{
    int fd = memfd_create("bomb", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : result(ftruncate(fd, (off_t)c->amount));

    if (fd >= 0)
        close(fd);
    return r;
}
ATTACK(bomb_descriptors)
{
    int *fds = calloc(c->amount + 1, sizeof(*fds));
    uint64_t n = 0;
    int r = fds ? 0 : -ENOMEM;

    while (r == 0 && n <= c->amount) {
        fds[n] = dup(STDIN_FILENO);
        r = result(fds[n]);
        n += r == 0;
    }
    while (n)
        close(fds[--n]);
    free(fds);
    return r;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *
thread_main(void *arg)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return arg;
}
ATTACK(bomb_threads)
{
    pthread_t *threads = calloc(c->amount + 1, sizeof(*threads));
    pthread_attr_t attr;
    uint64_t n = 0;
    int r = threads ? 0 : -ENOMEM;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 << 10);
    pthread_mutex_lock(&gate);
    while (r == 0 && n <= c->amount) {
        r = -pthread_create(&threads[n], &attr, thread_main, NULL);
        n += r == 0;
    }
    pthread_mutex_unlock(&gate);
    while (n)
        pthread_join(threads[--n], NULL);
    pthread_attr_destroy(&attr);
    free(threads);
    return r;
}

static const struct {
    const char *name;
    int (*run)(struct hostile *c);
} attacks[] = {
#define A(name)                                                                        \
    {                                                                                  \
#name, name                                                                    \
    }
    A(mem_of_sibling),
    A(mem_of_supervisor),
    A(maps_of_sibling),
    A(environ_of_supervisor),
    A(cmdline_of_supervisor),
    A(list_of_processes),
    A(descriptors_of_sibling),
    A(vm_read_of_sibling),
    A(vm_write_to_supervisor),
    A(trace_sibling),
    A(trace_me),
    A(kcmp_sibling),
    A(tgkill_supervisor),
    A(tgkill_sibling),
    A(tkill_supervisor),
    A(kill_supervisor),
    A(kill_sibling),
    A(kill_group_of_sibling),
    A(kill_everybody),
    A(queue_to_supervisor),
    A(tgqueue_to_sibling),
    A(pidfd_of_supervisor),
    A(owner_of_pipe),
    A(owner_by_ioctl),
    A(signal_of_pipe),
    A(limits_of_supervisor),
    A(limits_of_sibling),
    A(own_limits),
    A(cores_of_supervisor),
    A(cores_of_sibling),
    A(nice_of_sibling),
    A(nice_of_user),
    A(policy_of_sibling),
    A(io_class_of_sibling),
    A(pages_of_sibling),
    A(robust_list_of_sibling),
    A(file_read),
    A(file_write),
    A(file_append),
    A(file_truncate),
    A(file_unlink),
    A(file_chmod),
    A(file_rename),
    A(file_link),
    A(file_create),
    A(file_in_tmp),
    A(file_in_shm),
    A(file_unnamed),
    A(folder_make),
    A(home_profile),
    A(shadow_read),
    A(passwd_write),
    A(etc_read),
    A(shm_list),
    A(tty_open),
    A(core_pattern),
    A(socket_inet),
    A(socket_udp6),
    A(socket_unix),
    A(socket_netlink),
    A(socket_pair),
    A(socket_connect),
    A(socket_bind),
    A(socket_listen),
    A(socket_accept),
    A(option_linger),
    A(option_priority),
    A(option_mark),
    A(option_busy_poll),
    A(option_filter),
    A(option_device),
    A(option_source_route),
    A(option_protocol),
    A(flag_signals),
    A(flag_packets),
    A(exec_program),
    A(exec_descriptor),
    A(fork_process),
    A(fork_namespace),
    A(fork_clone3),
    A(unshare_user),
    A(become_root),
    A(become_dumpable),
    A(outlive_supervisor),
    A(code_writable),
    A(code_made),
    A(code_in_file),
    A(mount_fs),
    A(umount_fs),
    A(change_root),
    A(change_folder),
    A(key_control),
    A(key_add),
    A(bpf_load),
    A(uring_setup),
    A(fault_handler),
    A(perf_open),
    A(old_personality),
    A(kernel_module),
    A(kernel_log),
    A(host_name),
    A(host_reboot),
    A(handle_open),
    A(watch_files),
    A(queue_open),
    A(sysv_memory),
    A(sysv_queue),
    A(terminal_input),
    A(new_session),
    A(new_group),
    A(file_mask),
    A(bomb_memory),
    A(bomb_shared),
    A(bomb_file),
    A(bomb_descriptors),
    A(bomb_threads),
};

const char *
hostile_name(unsigned index)
{
    return index < sizeof(attacks) / sizeof(attacks[0]) ? attacks[index].name : NULL;
}

int
hostile_attack(struct hostile *control)
{
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        if (strcmp(attacks[i].name, control->name) == 0)
            return attacks[i].run(control);
    return 0; /* unknown: a test that cannot fail would be worse */
}
