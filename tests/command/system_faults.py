"""Runs the command by the fork server and makes one of its system calls on files fail, at choice.

Where system_calls.py starts a program of its own, which for LibTorch takes most of a second, this follows the processes
that the fork server makes, so that thousands of faults are affordable.
"""
import collections
import ctypes
import errno
import json
import os
import platform
import select
import signal
import subprocess
import tempfile
import time
import unittest

from command_support import STIEFEL, traced
from system_calls import CONT, EXITKILL, SETOPTIONS, SYSCALL, SYSGOOD, TRACEME, ptrace

_PEEKUSER, _POKEUSER = 3, 6
_TRACEFORK, _WALL = 2, 0x40000000
# Places of registers of x86-64 as a debugger sees them, in bytes.
_RAX, _RDX, _RSI, _RDI, _NUMBER = (8 * i for i in (10, 12, 13, 14, 15))

# Name of each call, and where it has the file: a descriptor, a path, or a path after a folder's descriptor.
_CALLS = {0: ("read", "fd"), 1: ("write", "fd"), 2: ("open", "path"), 3: ("close", "fd"), 4: ("stat", "path"),
          5: ("fstat", "fd"), 6: ("lstat", "path"), 18: ("pwrite", "fd"), 20: ("writev", "fd"), 40: ("sendfile", "fd"),
          73: ("flock", "fd"), 74: ("fsync", "fd"), 75: ("fdatasync", "fd"), 76: ("truncate", "path"),
          77: ("ftruncate", "fd"), 82: ("rename", "path"), 83: ("mkdir", "path"), 84: ("rmdir", "path"),
          87: ("unlink", "path"), 217: ("getdents", "fd"), 257: ("open", "at"), 258: ("mkdir", "at"), 262: ("stat", "at"),
          263: ("unlink", "at"), 264: ("rename", "at"), 316: ("rename", "at"), 326: ("copy_file_range", "fd")}

# What may happen instead of a call, beside an error. SHORT: it does half of what it was asked. KILL: the process ends.
SHORT, KILL = "short", "kill"
_MAY = {"read": (errno.EIO, errno.EINTR, SHORT), "write": (errno.ENOSPC, errno.EIO, errno.EINTR, SHORT),
        "open": (errno.EIO, errno.EINTR, errno.EMFILE), "close": (errno.EIO, errno.EINTR), "fstat": (errno.EIO,),
        "stat": (errno.EIO,), "lstat": (errno.EIO,), "flock": (errno.EINTR, errno.ENOLCK),
        "fsync": (errno.EIO, errno.ENOSPC, errno.EINTR), "ftruncate": (errno.EIO, errno.EINTR),
        "rename": (errno.EIO, errno.ENOSPC, errno.EACCES), "mkdir": (errno.ENOSPC, errno.EACCES),
        "unlink": (errno.EIO, errno.EACCES), "getdents": (errno.EIO,), "sendfile": (errno.EIO, errno.ENOSPC),
        "copy_file_range": (errno.EIO, errno.ENOSPC)}
for _like, _name in (("write", "pwrite"), ("write", "writev"), ("fsync", "fdatasync"), ("ftruncate", "truncate"),
                     ("unlink", "rmdir")):
    _MAY[_name] = _MAY[_like]

Call = collections.namedtuple("Call", "name path faults")
# `number`: of the call among those that are followed, from 0. `name` and `path` are that call's.
Fault = collections.namedtuple("Fault", "number kind name path")


def faults_of(calls):
    """Every fault that a run which made these calls can meet."""
    return [Fault(number, kind, call.name, call.path) for number, call in enumerate(calls) for kind in (*call.faults, KILL)]


def describe(fault):
    kind = fault.kind if fault.kind in (SHORT, KILL) else errno.errorcode[fault.kind]
    return f"{kind} at call {fault.number}, {fault.name} of {fault.path}"


class TimedOut(Exception):
    """The command did not end in time; it was killed."""


class FaultServer:
    """Runs the command, its calls on files below `root` followed."""
    LIMIT = 60  # seconds for one command

    def __init__(self, root):
        if platform.machine() != "x86_64" or platform.system() != "Linux":
            raise unittest.SkipTest("system calls are followed on x86-64 Linux only")
        self.root = os.path.realpath(root)
        words = [os.path.join(os.path.dirname(STIEFEL), "stiefel_fork_server")]
        requests, self.requests = os.pipe()
        self.answers, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.dup2(requests, 0)
                os.dup2(answers, 1)
                os.closerange(3, 100)
                ptrace(TRACEME, 0, None, None)
                os.execve(words[0], words, traced(dict(os.environ, OMP_NUM_THREADS="1")))
            finally:
                os._exit(99)
        os.close(requests)
        os.close(answers)
        _, status = os.waitpid(self.pid, 0)
        if not os.WIFSTOPPED(status):
            raise unittest.SkipTest("a program may not be traced here")
        ptrace(SETOPTIONS, self.pid, None, SYSGOOD | _TRACEFORK | EXITKILL)
        ptrace(CONT, self.pid, None, None)
        self.entering = {}  # whether the next stop of a process is the beginning of a call
        self.calls = []
        self.fault = None
        self.due = None  # what the call under way is to return
        self.kill_time = None

    def run(self, words, env, folder, fault=None, look=None, kill_after=None):
        """Runs the command to its end. Returns what subprocess.run does, with `calls`: those that were followed.
        `look` is called right before the fault; `kill_after` are seconds."""
        self.calls, self.fault, self.due, self.look = [], fault, None, look
        self.kill_time = None if kill_after is None else time.time() + kill_after
        with tempfile.NamedTemporaryFile("r+") as out, tempfile.NamedTemporaryFile("r+") as errors:
            request = {"words": words, "environment": env, "folder": folder, "stdout": out.name, "stderr": errors.name}
            os.write(self.requests, (json.dumps(request) + "\n").encode())
            self._follow(time.time() + self.LIMIT)
            answer = b""
            while not answer.endswith(b"\n"):
                answer += os.read(self.answers, 100)
            done = subprocess.CompletedProcess(words, int(answer), out.read(), errors.read())
        done.calls = self.calls
        return done

    def close(self):
        for child in self.entering:  # after an error in here
            os.kill(child, signal.SIGKILL)
        os.close(self.requests)
        while True:
            pid, status = os.waitpid(-1, _WALL)  # the server waits for its children, who are ours to wait for first
            if os.WIFSTOPPED(status):
                self._continue(CONT, pid, os.WSTOPSIG(status) if pid == self.pid else 0)
            elif pid == self.pid:
                break
        os.close(self.answers)

    @staticmethod
    def _continue(how, pid, passed_on=0):
        try:
            ptrace(how, pid, None, passed_on or None)
        except ProcessLookupError:
            pass  # it was killed meanwhile

    def _follow(self, until):
        while not select.select([self.answers], [], [], 0)[0]:
            pid, status = os.waitpid(-1, _WALL | os.WNOHANG)
            if self.kill_time and time.time() > self.kill_time and self.entering:
                self.kill_time = None
                for child in self.entering:
                    os.kill(child, signal.SIGKILL)
            if pid == 0:
                if time.time() > until:
                    for child in self.entering:
                        os.kill(child, signal.SIGKILL)
                    raise TimedOut
                time.sleep(2e-5)
                continue
            if not os.WIFSTOPPED(status):
                self.entering.pop(pid, None)
                continue
            number = os.WSTOPSIG(status)
            if pid == self.pid:
                # The process that it has made is told of by its own first stop.
                self._continue(CONT, pid, 0 if status >> 16 or number == signal.SIGSTOP else number)
            elif pid not in self.entering:
                self.entering[pid] = True  # it begins with a stop, which is not its own
                self._continue(SYSCALL, pid)
            elif number != signal.SIGTRAP | 0x80:
                self._continue(SYSCALL, pid, 0 if status >> 16 else number)
            else:
                self._stop(pid)
                self._continue(SYSCALL, pid)

    def _stop(self, pid):
        """At the beginning or the end of a call."""
        try:
            if self.entering[pid]:
                self._enter(pid)
            elif self.due is not None:
                ptrace(_POKEUSER, pid, _RAX, -self.due & 2**64 - 1)
                self.due = None
        except ProcessLookupError:
            return  # it was killed meanwhile
        self.entering[pid] = not self.entering[pid]

    def _register(self, pid, place):
        return ptrace(_PEEKUSER, pid, place, None)

    def _enter(self, pid):
        number = self._register(pid, _NUMBER)
        if number not in _CALLS:
            return
        name, kind = _CALLS[number]
        try:
            path = self._path(pid, kind)
        except OSError:
            return  # no such descriptor
        if not path.startswith(self.root + "/"):
            return
        if self.fault and self.fault.number == len(self.calls):
            self._strike(pid, name, path)
        self.calls.append(Call(name, path[len(self.root) + 1:], _MAY[name]))

    def _strike(self, pid, name, path):
        assert (name, path[len(self.root) + 1:]) == self.fault[2:], f"{name} of {path} is not the call of {self.fault}"
        if self.look:
            self.look()
        if self.fault.kind == KILL:
            os.kill(pid, signal.SIGKILL)
        elif self.fault.kind == SHORT:
            ptrace(_POKEUSER, pid, _RDX, max(1, self._register(pid, _RDX) // 2))
        else:
            if name != "close":  # Linux closes a descriptor whatever it says
                ptrace(_POKEUSER, pid, _NUMBER, 2**64 - 1)
            self.due = self.fault.kind

    def _path(self, pid, kind):
        first = self._register(pid, _RDI)
        if kind == "fd":
            return os.readlink(f"/proc/{pid}/fd/{ctypes.c_int32(first).value}")
        name = self._string(pid, first if kind == "path" else self._register(pid, _RSI))
        folder = ctypes.c_int32(first).value if kind == "at" else -100
        if name.startswith("/"):
            return os.path.normpath(name)
        base = os.readlink(f"/proc/{pid}/cwd" if folder == -100 else f"/proc/{pid}/fd/{folder}")
        return os.path.normpath(os.path.join(base, name))

    @staticmethod
    def _string(pid, address):
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(address & 2**64 - 1)
            text = b""
            while b"\0" not in text:
                text += memory.read(64 - (address + len(text)) % 64)
            return os.fsdecode(text[:text.index(b"\0")])
