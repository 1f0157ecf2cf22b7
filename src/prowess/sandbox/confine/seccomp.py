"""Filter system calls with seccomp: every call is refused unless it is listed."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from prowess.sandbox.confine.kernel import libc, machine

NEWEST: Final = 462
"""Calls with higher numbers are newer than this list. They answer ENOSYS, so that programs fall back to what they know."""

_NUMBERS = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69, pwritev 296 70,
preadv2 327 286, pwritev2 328 287, close 3 57, close_range 436 436, lseek 8 62, fstat 5 80, newfstatat 262 79,
statx 332 291, stat 4 -, lstat 6 -, statfs 137 43, fstatfs 138 44, openat 257 56, open 2 -, openat2 437 437,
creat 85 -, readlink 89 -, readlinkat 267 78, access 21 -, faccessat 269 48, faccessat2 439 439,
getdents64 217 61, getdents 78 -, getcwd 79 17, chdir 80 49, fchdir 81 50, dup 32 23, dup2 33 -, dup3 292 24,
fcntl 72 25, ioctl 16 29, flock 73 32, fsync 74 82, fdatasync 75 83, sync_file_range 277 84, fadvise64 221 223,
readahead 187 213, sendfile 40 71, copy_file_range 326 285, splice 275 76, tee 276 77,
mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -, renameat 264 38,
renameat2 316 276, symlink 88 -, symlinkat 266 36, link 86 -, linkat 265 37, ftruncate 77 46, fallocate 285 47,
umask 95 166, mknodat 259 33, mknod 133 -,
mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, madvise 28 233, brk 12 214, msync 26 227,
mincore 27 232, membarrier 324 283, pkey_alloc 330 289, pkey_free 331 290, pkey_mprotect 329 288,
get_mempolicy 239 236,
futex 202 98, futex_waitv 449 449, set_robust_list 273 99, get_robust_list 274 100, rseq 334 293,
set_tid_address 218 96, gettid 186 178, getpid 39 172, getppid 110 173,
rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigtimedwait 128 137, rt_sigsuspend 130 133,
rt_sigpending 127 136, sigaltstack 131 132, pause 34 -, alarm 37 -, setitimer 38 103, getitimer 36 102,
timer_create 222 107, timer_settime 223 110, timer_gettime 224 108, timer_getoverrun 225 109,
timer_delete 226 111,
clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115, nanosleep 35 101, gettimeofday 96 169,
time 201 -, times 100 153, getrusage 98 165,
sched_yield 24 124, sched_getaffinity 204 123, sched_setaffinity 203 122, sched_getscheduler 145 120,
sched_getparam 143 121, sched_get_priority_max 146 125, sched_get_priority_min 147 126, getpriority 140 141,
sched_getattr 315 275,
getrandom 318 278, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getgroups 115 158,
getresuid 118 148, getresgid 120 150, getpgrp 111 -, getpgid 121 155, getsid 124 156, capget 125 90,
uname 63 160, sysinfo 99 179, getcpu 309 168, arch_prctl 158 -, prctl 157 167, getrlimit 97 163,
setrlimit 160 164, prlimit64 302 261,
exit 60 93, exit_group 231 94, restart_syscall 219 128,
poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create1 291 20, epoll_create 213 -, epoll_ctl 233 21,
epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441, eventfd2 290 19, eventfd 284 -, pipe2 293 59,
pipe 22 -, timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87, signalfd4 289 74,
signalfd 282 -, inotify_init1 294 26, inotify_init 253 -, inotify_add_watch 254 27, inotify_rm_watch 255 28,
socket 41 198, socketpair 53 199, sendto 44 206, recvfrom 45 207, sendmsg 46 211, recvmsg 47 212,
sendmmsg 307 269, recvmmsg 299 243, getsockopt 55 209, setsockopt 54 208, getsockname 51 204, getpeername 52 205,
shutdown 48 210,
clone 56 220, clone3 435 435, fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, wait4 61 260,
waitid 247 95, kill 62 129, tkill 200 130, tgkill 234 131, pidfd_open 434 434, pidfd_send_signal 424 424,
setpgid 109 154, setsid 112 157, rt_sigqueueinfo 129 138,
chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55, lchown 94 -,
fchownat 260 54, utime 132 -, utimes 235 -, utimensat 280 88, futimesat 261 -, setxattr 188 5, lsetxattr 189 6,
fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, getxattr 191 8, lgetxattr 192 9,
fgetxattr 193 10, listxattr 194 11, llistxattr 195 12, flistxattr 196 13

"""
"""Name, number on x86_64, number on aarch64; - where it has no such call."""


class ArgumentTest(NamedTuple):
    """A condition: an argument, counted from 0, is one of these values under a mask."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF


Calls = dict[str, tuple[ArgumentTest, ...]]
"""The calls that are allowed, each with the conditions for its arguments."""


@functools.cache
def numbers(machine: str) -> dict[str, int]:
    """Return the number of each call that the processor has."""
    column = {"x86_64": 1, "aarch64": 2}[machine]
    rows = [row.split() for row in _NUMBERS.replace("\n", " ").split(",")]
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


_COMPUTING = """
read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 close close_range lseek fstat newfstatat statx stat
lstat statfs fstatfs readlink readlinkat access faccessat faccessat2 getdents64 getdents getcwd
chdir fchdir dup dup2 dup3 flock fsync fdatasync fadvise64 readahead sendfile copy_file_range
rmdir unlink unlinkat rename renameat renameat2 symlink symlinkat link linkat ftruncate fallocate umask
mmap munmap mremap mprotect madvise brk msync mincore membarrier pkey_alloc pkey_free pkey_mprotect get_mempolicy
futex futex_waitv set_robust_list rseq set_tid_address gettid getpid getppid
rt_sigaction rt_sigprocmask rt_sigreturn rt_sigtimedwait rt_sigsuspend rt_sigpending sigaltstack pause alarm setitimer
getitimer clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage
sched_yield sched_getaffinity sched_getscheduler sched_getparam sched_get_priority_max sched_get_priority_min
getrandom getuid geteuid getgid getegid getgroups getresuid getresgid getpgrp getpgid getsid uname sysinfo getcpu
arch_prctl getrlimit setrlimit exit exit_group restart_syscall
poll ppoll select pselect6 epoll_create1 epoll_create epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd2 eventfd pipe2
pipe timerfd_create timerfd_settime timerfd_gettime
sendto recvfrom getsockopt getsockname getpeername shutdown
"""
_STARTING = """
fork vfork execve execveat wait4 waitid kill tkill tgkill pidfd_open pidfd_send_signal setpgid setsid prctl capget
sendmsg recvmsg sendmmsg recvmmsg signalfd4 signalfd timer_create timer_settime timer_gettime timer_getoverrun timer_delete splice tee sync_file_range get_robust_list fcntl
getpriority sched_getattr
"""
_ATTRIBUTES = "chown fchown lchown fchownat utime utimes utimensat futimesat"
ABSENT: Final = "clone3 openat2 inotify_init1 inotify_init inotify_add_watch inotify_rm_watch"
"""Calls that answer ENOSYS, so that programs fall back to others.

`clone3` and `openat2` pass their flags in memory, where no filter can look. `inotify` reports what happens in folders that
cannot be opened.
"""
UNSUPPORTED: Final = """
getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr
removexattr lremovexattr fremovexattr
"""
"""Calls that answer ENOTSUP: they take a path, and Landlock does not check them. Programs such as `cp` and `ls` accept that."""

_OTHER_USERS: Final = 0o6000


def _plain_mode(argument: int) -> tuple[ArgumentTest, ...]:
    """Return the condition that a mode has no set-user-ID or set-group-ID bit."""
    return (ArgumentTest(argument, (0,), mask=_OTHER_USERS),)


# `open` has no mode without O_CREAT; C libraries then pass 0, so the test holds.
_CREATING: Calls = {
    "open": _plain_mode(2),
    "openat": _plain_mode(3),
    "creat": _plain_mode(1),
    "mkdir": _plain_mode(1),
    "mkdirat": _plain_mode(2),
}
_CREATING_PIPES: Calls = {"mknod": _plain_mode(1), "mknodat": _plain_mode(2)}
_MODES: Calls = {
    "chmod": _plain_mode(1),
    "fchmod": _plain_mode(1),
    "fchmodat": _plain_mode(2),
    "fchmodat2": _plain_mode(2),
}
_NAMESPACES, _THREAD = 0x7E020000, 0x00010000
_STREAM, _PACKETS = 1, 5
_PIPES: Calls = {"socketpair": (ArgumentTest(0, (1,)), ArgumentTest(1, (_STREAM, _PACKETS), mask=0xF))}
"""A pair of connected Unix sockets reaches nothing else. A datagram socket could still be connected to another address."""
# Not the sizes of buffers: a process could hold megabytes in each of its sockets, outside its own memory. Allowed are
# SO_REUSEADDR, SO_KEEPALIVE, SO_LINGER, SO_PASSCRED and the timeouts.
_SOCKET_OPTIONS: Calls = {"setsockopt": (ArgumentTest(1, (1,)), ArgumentTest(2, (2, 9, 13, 16, 20, 21, 66, 67)))}
# Process 0 is the calling one: the limits and cores of others must not be changed.
_ON_SELF: Calls = {"prlimit64": (ArgumentTest(0, (0,)),), "sched_setaffinity": (ArgumentTest(0, (0,)),)}
# What programs use to distinguish a terminal from a pipe, and for their own descriptors. TIOCSTI is not among them: it types
# into the user's terminal.
_TERMINAL_SIZE, _TERMINAL, _UNREAD, _NONBLOCKING, _KEPT_OPEN, _CLOSED = 0x5413, 0x5401, 0x541B, 0x5421, 0x5450, 0x5451
_IOCTLS = (_TERMINAL_SIZE, _TERMINAL, _UNREAD, _NONBLOCKING, _KEPT_OPEN, _CLOSED)
_FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1031, 1032, 1034)
"""Duplicates, flags, locks and pipe sizes; not the owner of signals, nor leases, which could disturb other processes."""
_NAME, _NAME_OF_MEMORY = (15, 16), 0x53564D41


def computing() -> Calls:
    """Return the calls for code that computes, also in threads, and uses what it has open. It cannot send signals."""
    return {
        **dict.fromkeys(_COMPUTING.split(), ()),
        **_CREATING,
        **_PIPES,
        **_SOCKET_OPTIONS,
        **_ON_SELF,
        # Threads only, and no new namespaces: within one a process has capabilities.
        "clone": (ArgumentTest(0, (_THREAD,), mask=_NAMESPACES | _THREAD),),
        "ioctl": (ArgumentTest(1, _IOCTLS),),
        "fcntl": (ArgumentTest(1, _FCNTLS),),
        "prctl": (ArgumentTest(0, (*_NAME, _NAME_OF_MEMORY)),),
    }


def becoming() -> Calls:
    """Return the calls for a process that executes one program: it can start no other and send no signals."""
    return {**computing(), "execve": ()}


def starting(*, attributes: bool) -> Calls:
    """Return the calls for programs that start others.

    `attributes` allows changes of modes, owners and times, which Landlock does not check: only where mounts are read-only.
    """
    names = _COMPUTING.split() + _STARTING.split() + (_ATTRIBUTES.split() if attributes else [])
    return {
        **dict.fromkeys(names, ()),
        **_CREATING,
        **_CREATING_PIPES,
        **(_MODES if attributes else {}),
        **_PIPES,
        **_SOCKET_OPTIONS,
        **_ON_SELF,
        "clone": (ArgumentTest(0, (0,), mask=_NAMESPACES),),
        "ioctl": (ArgumentTest(1, _IOCTLS),),
    }


_SET_SECCOMP, _FILTER = 22, 2
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_OTHER_NUMBERS = 0x40000000
"""From here on x86_64 has the calls of the x32 ABI, a second way to all of them."""
_LOAD, _AND, _EQUAL, _ABOVE, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x35, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_NOT_PERMITTED, _NOT_THERE, _NOT_SUPPORTED = 0x00050001, 0x00050026, 0x0005005F
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16


def install_filter(program: bytes) -> bool:
    """Apply a filter to every call from now on; return True if that worked. `no_new_privs` must be set."""
    if not program:
        return False
    # Kept in a variable: the structure below holds only its address.
    instructions = ctypes.create_string_buffer(program)
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(instructions)))
    done = libc().prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER), header, ctypes.c_ulong(0), ctypes.c_ulong(0))
    return done == 0


@functools.cache
def filter_for(*, may_start: bool = False, may_become: bool = False, attributes: bool = False) -> bytes:
    """Return the filter for this machine; empty if its calls are not known."""
    calls = starting(attributes=attributes) if may_start else becoming() if may_become else computing()
    return filter_of(calls, machine()) if machine() else b""


def filter_of(calls: Calls, known: str) -> bytes:
    """Return the filter as a BPF program. A call of another architecture, where numbers mean other calls, kills the process."""
    steps = [
        _instruction(_LOAD, _ARCHITECTURE_AT),
        _instruction(_EQUAL, _ARCHITECTURES[known], 1, 0),
        _instruction(_RETURN, _KILL),
    ]
    steps += [
        _instruction(_LOAD, _NUMBER_AT),
        _instruction(_AT_LEAST, _OTHER_NUMBERS, 0, 1),
        _instruction(_RETURN, _KILL),
    ]
    of_name = numbers(known)
    # The unconditional calls come first, since they are most of what a program does.
    steps += _allow_ranges(of_name[name] for name, tests in calls.items() if name in of_name and not tests)
    for name, tests in calls.items():
        if name in of_name and tests:
            allowed = _allow_call(tests)
            # A jump has 8 bits, so the steps of one call must be fewer than 256.
            steps += [_instruction(_EQUAL, of_name[name], 0, len(allowed)), *allowed]
    for names, answer in ((ABSENT, _NOT_THERE), (UNSUPPORTED, _NOT_SUPPORTED)):
        for number in (of_name[name] for name in names.split() if name in of_name):
            steps += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, answer)]
    steps += [_instruction(_ABOVE, NEWEST, 0, 1), _instruction(_RETURN, _NOT_THERE)]
    return b"".join([*steps, _instruction(_RETURN, _NOT_PERMITTED)])


def _allow_ranges(allowed: Iterable[int]) -> list[bytes]:
    """Return the steps that allow calls whatever their arguments, a run of neighbouring numbers at a time.

    When a filter is installed, the kernel runs it once for every number to learn which calls it always allows. A third of the
    steps saves 0.2 ms of each native run, which installs its own filter.
    """
    runs: list[list[int]] = []
    for number in sorted(allowed):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    steps: list[bytes] = []
    for run in runs:
        if len(run) == 1:
            steps.append(_instruction(_EQUAL, run[0], 0, 1))
        else:
            steps += [_instruction(_AT_LEAST, run[0], 0, 2), _instruction(_ABOVE, run[-1], 1, 0)]
        steps.append(_instruction(_RETURN, _ALLOW))
    return steps


def _allow_call(tests: tuple[ArgumentTest, ...]) -> list[bytes]:
    """Return the steps that allow one call if all conditions hold, and refuse it otherwise."""
    steps: list[bytes] = []
    for test in tests:
        # The lower half of the argument, which comes first on both processors: the kernel itself reads these as 32 bits.
        steps += [_instruction(_LOAD, _ARGUMENTS_AT + 8 * test.argument), _instruction(_AND, test.mask)]
        count = len(test.values)
        steps += [_instruction(_EQUAL, value, count - index, 0) for index, value in enumerate(test.values)]
        steps.append(_instruction(_RETURN, _NOT_PERMITTED))
    return [*steps, _instruction(_RETURN, _ALLOW)]


def _instruction(code: int, operand: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_so, if_not, operand)
