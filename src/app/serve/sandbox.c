/* The sandbox: see sandbox.h. A BPF program that the kernel runs before each system call of each
 * thread. It lists what is refused, so that what libc needs tomorrow still works; the arguments of
 * clone, mmap, mprotect, tgkill and prlimit64 are looked at. */
#define _GNU_SOURCE /* CLONE_THREAD */
#include "app/serve/sandbox.h"

#include <stdio.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#if defined(__linux__) && !defined(SANITIZED) && (defined(__x86_64__) || defined(__aarch64__))

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#define MACHINE AUDIT_ARCH_X86_64
#else
#define MACHINE AUDIT_ARCH_AARCH64
#endif

/* A call that the headers of an older kernel do not know has its number here: newer calls have the
 * same number on both machines. */
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
enum { PROCESS_MADVISE = 440, MOUNT_SETATTR = 442, QUOTACTL_FD = 443, LANDLOCK = 444 };

static const int refused[] = {
#ifdef __x86_64__ /* calls of old that AArch64 never had */
    SYS_open, SYS_creat, SYS_fork, SYS_vfork, SYS_unlink, SYS_rename, SYS_link, SYS_symlink,
    SYS_mkdir, SYS_rmdir, SYS_mknod, SYS_chmod, SYS_chown, SYS_lchown, SYS_readlink, SYS_access,
    SYS_utime, SYS_utimes, SYS_futimesat, SYS_uselib, SYS_iopl, SYS_ioperm, SYS_modify_ldt,
    SYS_inotify_init,
#endif
    /* files */
    SYS_openat, SYS_openat2, SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_unlinkat,
    SYS_renameat, SYS_renameat2, SYS_linkat, SYS_symlinkat, SYS_mkdirat, SYS_mknodat, SYS_truncate,
    SYS_fchmod, SYS_fchmodat, SYS_fchmodat2, SYS_fchown, SYS_fchownat, SYS_readlinkat,
    SYS_faccessat, SYS_faccessat2, SYS_utimensat, SYS_chdir, SYS_fchdir, SYS_chroot,
    SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr,
    SYS_fremovexattr, SYS_memfd_create, SYS_inotify_init1, SYS_fanotify_init,
    /* programs and processes */
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp,
    SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_open, SYS_pidfd_send_signal,
    SYS_pidfd_getfd, PROCESS_MADVISE, SYS_personality,
    /* connections and other ways out */
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_shmget, SYS_shmat,
    SYS_msgget, SYS_semget, SYS_mq_open, SYS_io_uring_setup, SYS_io_uring_enter,
    SYS_io_uring_register, SYS_io_setup,
    /* the system */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_move_mount, SYS_open_tree, SYS_fsopen,
    SYS_fspick, SYS_fsmount, SYS_fsconfig, MOUNT_SETATTR, QUOTACTL_FD, LANDLOCK, SYS_setns,
    SYS_unshare, SYS_swapon, SYS_swapoff, SYS_reboot, SYS_sethostname, SYS_setdomainname,
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_bpf,
    SYS_perf_event_open, SYS_userfaultfd, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_acct,
    SYS_quotactl, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_syslog,
    SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups,
    SYS_capset,
};

enum { N_REFUSED = sizeof refused / sizeof *refused, ROOM = 2 * N_REFUSED + 40 };

struct program {
    struct sock_filter code[ROOM];
    unsigned short n;
};

static void add(struct program *p, unsigned short code, uint32_t k, uint8_t yes, uint8_t no)
{
    p->code[p->n++] = (struct sock_filter){code, yes, no, k};
}

static void load(struct program *p, size_t at)
{
    add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)at, 0, 0);
}

static void answer(struct program *p, uint32_t action)
{
    add(p, BPF_RET | BPF_K, action, 0, 0);
}

enum { REFUSE = SECCOMP_RET_ERRNO | EPERM, UNKNOWN = SECCOMP_RET_ERRNO | ENOSYS };

/* Call `number` only where `code` (BPF_JSET: has one of the bits; BPF_JEQ: is) of the low half of
 * its argument is `allowed`. Leaves the number loaded for the next rule. */
static void add_argument(struct program *p, int number, int argument, unsigned short code,
                         uint32_t k, bool allowed)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 4);
    load(p, offsetof(struct seccomp_data, args) + 8 * (size_t)argument);
    add(p, BPF_JMP | code | BPF_K, k, allowed, !allowed);
    answer(p, (uint32_t)REFUSE);
    answer(p, SECCOMP_RET_ALLOW);
}

static void build(struct program *p)
{
    p->n = 0;
    load(p, offsetof(struct seccomp_data, arch));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
    answer(p, (uint32_t)REFUSE);
    load(p, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__ /* numbers of x32 */
    add(p, BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);
    answer(p, (uint32_t)REFUSE);
#endif
    for (size_t i = 0; i < N_REFUSED; i++) {
        add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)refused[i], 0, 1);
        answer(p, (uint32_t)REFUSE);
    }
    /* Its flags are in memory, which this cannot see; libc then uses clone. */
    add(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    answer(p, (uint32_t)UNKNOWN);
    add_argument(p, SYS_clone, 0, BPF_JSET, CLONE_THREAD, true);
    add_argument(p, SYS_mmap, 2, BPF_JSET, PROT_EXEC, false);
    add_argument(p, SYS_mprotect, 2, BPF_JSET, PROT_EXEC, false);
    add_argument(p, SYS_pkey_mprotect, 2, BPF_JSET, PROT_EXEC, false);
    add_argument(p, SYS_tgkill, 0, BPF_JEQ, (uint32_t)getpid(), true);
    add_argument(p, SYS_prlimit64, 0, BPF_JEQ, 0, true); /* 0: this process */
    answer(p, SECCOMP_RET_ALLOW);
}

bool sandbox_enter(char *why, size_t n)
{
    struct program p;
    build(&p);
    struct sock_fprog filter = {.len = p.n, .filter = p.code};
    long failed = -1;
    if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        failed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
    if (failed > 0)
        snprintf(why, n, "thread %ld has a filter of its own", failed);
    else if (failed)
        snprintf(why, n, "the kernel refuses: %s", strerror(errno));
    return !failed;
}

#else

bool sandbox_enter(char *why, size_t n)
{
    snprintf(why, n, "this build has none");
    return false;
}

#endif
