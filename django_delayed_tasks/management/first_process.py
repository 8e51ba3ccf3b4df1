"""The first process of a container (PID 1): it starts a command, passes signals on, and reaps what others leave behind.

A process whose parent has ended becomes a child of the first one, and stays as a zombie until that reads its exit code.
An executor cannot do it: reading the exit codes of all children would take them from handlers that wait for theirs. So
the command runs as a child of this file, which is run as a program and imports no Django: it takes little memory.
"""

import os
import signal
import sys

FROM_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""The signals that a terminal sends to the command as well."""


def continue_below() -> None:
    """Replace this process by this file, with the same command below it, if it is the first one of a container."""
    if os.getpid() != 1 or not (sys.executable and sys.orig_argv and os.path.isfile(__file__)):
        return
    command = [sys.executable, *sys.orig_argv[1:]]
    # Blocked until the program waits for them: the kernel throws away what a first process does not handle.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        os.execv(sys.executable, [sys.executable, "-I", "-S", __file__, *command])
    except OSError:  # such as no memory: it continues as it is, without reaping
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run(command: list[str]) -> int:
    """Run the command to its end; return its exit code, as a shell does."""
    signals = signal.valid_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    child = os.posix_spawn(command[0], command, os.environ, setsigmask=())
    while (code := _reap(child)) is None:
        came = signal.sigwaitinfo(signals)
        if came.si_signo != signal.SIGCHLD and not (came.si_code > 0 and came.si_signo in FROM_THE_TERMINAL):
            os.kill(child, came.si_signo)
    return code if code >= 0 else 128 - code


def _reap(child: int) -> int | None:
    """Read the exit codes of all children that have ended; return the code of this one, if it has."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return os.waitstatus_to_exitcode(status)
        if pid == 0:
            return None


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
