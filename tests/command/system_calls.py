"""Runs a program and looks at its files before each of its system calls that touches files, while it stands still."""
import ctypes
import os
import platform
import signal
import unittest

TRACEME, _PEEKUSER, CONT, SYSCALL, SETOPTIONS = 0, 3, 7, 24, 0x4200
SYSGOOD, _TRACEEXEC, EXITKILL = 1, 0x10, 0x100000
_NUMBER_OFFSET = 15 * 8  # of orig_rax in the registers of x86-64
# write, open, fsync, ftruncate, rename, mkdir, unlink, openat, unlinkat, renameat, renameat2
_ABOUT_FILES = {1, 2, 74, 77, 82, 83, 87, 257, 263, 264, 316}


def ptrace(request, pid, address, data):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    ctypes.set_errno(0)
    answer = libc.ptrace(request, pid, address, data)
    if answer == -1 and ctypes.get_errno() != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    return answer


def run_and_look(words, look, env, cwd):
    """Runs the program to its end and calls look() before each such call of its first thread. Returns its exit status."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        raise unittest.SkipTest("system calls are followed on x86-64 Linux only")
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(cwd)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            ptrace(TRACEME, 0, None, None)
            os.execve(words[0], words, env)
        finally:
            os._exit(99)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        raise unittest.SkipTest("a program may not be traced here")
    ptrace(SETOPTIONS, pid, None, SYSGOOD | _TRACEEXEC | EXITKILL)
    entering = True
    passed_on = 0
    while True:
        ptrace(SYSCALL, pid, None, passed_on or None)
        passed_on = 0
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        if status >> 16:
            continue  # the program has started another in its place; no signal was sent
        if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
            passed_on = os.WSTOPSIG(status)
            continue
        if entering and ptrace(_PEEKUSER, pid, _NUMBER_OFFSET, None) in _ABOUT_FILES:
            look()
        entering = not entering
