"""A trusted interpreter -> the same one as first process of an isolated, unprivileged world.

Used where bubblewrap is not installed: new namespaces for users (unless root), mounts, processes,
network, ipc and host name; a root of its own with the system read-only and empty scratch folders.
`give_up_privileges` is also the last step under bubblewrap.
"""

import ctypes
import os
import signal
import stat
import sys

import syscalls

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
LINUX_CAPABILITY_VERSION_3 = 0x20080522
NOBODY = 65534
STAGE = "/sys"
"""Where the new root is put together: a folder that exists everywhere and is not needed."""

libc = ctypes.CDLL(None, use_errno=True)


def enter_namespaces(config):
    """Return as process 1 of new namespaces; the calling process stays behind and waits for it.

    Raises:
        OSError: The kernel refuses (no user namespaces, no CAP_SYS_ADMIN).
    """
    flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    uid, gid = os.geteuid(), os.getegid()
    if config["user_namespace"]:
        flags |= CLONE_NEWUSER
    _call("unshare", flags)
    if config["user_namespace"]:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    die_with_parent()
    child = os.fork()
    if child:
        for fd in (0, 1, 2):
            os.close(fd)
        _, status = os.waitpid(child, 0)
        os._exit(0 if status == 0 else 1)
    die_with_parent()
    _build_root(config)


def give_up_privileges(config):
    """Become a plain user without capabilities that nothing can give any back to."""
    uid = config["uid"]
    if uid is not None:
        os.setgroups([])
        try:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        except OSError:  # a container that maps few users
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
    header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)  # its memory is not for the submission to read
    syscalls.refuse_dangerous_calls()
    die_with_parent()  # again: a change of user clears it


def die_with_parent():
    """Be killed when the parent dies."""
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def be_readable():
    """Let this process open its own /proc entries, as any program can (/dev/stdin needs it)."""
    _call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)


def _build_root(config):
    _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    _call("mount", b"tmpfs", STAGE.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=755")
    for path in config["system"]:
        _copy_in(path)
    for path, megabytes in config["scratch"]:
        _folder(path)
        options = f"mode=1777,size={megabytes}m,nr_inodes=16k".encode()
        _call("mount", b"tmpfs", _inside(path), b"tmpfs", MS_NOSUID | MS_NODEV, options)
    _folder("/proc")
    proc = _mount_proc()
    for name, target in (("stdin", "0"), ("stdout", "1"), ("stderr", "2")):
        link = f"/proc/self/fd/{target}" if proc else f"{config['io']}/{name}"
        os.symlink(link, STAGE + "/dev/" + name)
    os.symlink("/proc/self/fd", STAGE + "/dev/fd")
    os.chdir(STAGE)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", MNT_DETACH)
    os.chdir("/")
    read_only = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV
    _call("mount", b"none", b"/", None, read_only, None)
    libc.sethostname(b"sandbox", 7)


def _mount_proc():
    """A /proc of the new process namespace; refused where the outer one is masked (containers)."""
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    return libc.mount(b"proc", _inside("/proc"), b"proc", flags, None) == 0


def _copy_in(path):
    """Show a file, folder or link of the system at the same place, read-only."""
    if not os.path.lexists(path) or os.path.lexists(STAGE + path):
        return
    _folder(os.path.dirname(path))
    if os.path.islink(path):
        os.symlink(os.readlink(path), STAGE + path)
        return
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        _folder(path)
    else:
        os.close(os.open(STAGE + path, os.O_CREAT | os.O_WRONLY, 0o644))
    _call("mount", path.encode(), _inside(path), None, MS_BIND | MS_REC, None)
    locked = os.statvfs(STAGE + path).f_flag & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    flags = MS_REMOUNT | MS_BIND | MS_NOSUID | locked
    if not stat.S_ISCHR(mode):
        flags |= MS_RDONLY | MS_NODEV
    _call("mount", b"none", _inside(path), None, flags, None)


def _folder(path):
    """Make a folder and its parents, which may be passed through but not listed."""
    parts = path.strip("/").split("/")
    for i in range(len(parts)):
        place = STAGE + "/" + "/".join(parts[: i + 1])
        if parts[i] and not os.path.isdir(place):
            os.mkdir(place)
            os.chmod(place, 0o755 if parts[0] == "dev" else 0o111)


def _inside(path):
    return (STAGE + path).encode()


def _write(path, text):
    with open(path, "w") as file:
        file.write(text)


def _call(name, *arguments):
    if getattr(libc, name)(*arguments) != 0:
        error = ctypes.get_errno()
        detail = b" ".join(a for a in arguments if isinstance(a, bytes)).decode()
        raise OSError(error, f"{name}({detail}): {os.strerror(error)}")


if sys.platform != "linux":
    raise OSError("the sandbox needs Linux")
