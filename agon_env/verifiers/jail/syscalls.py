"""The kernel's whole interface -> the part that a contest program needs.

A seccomp filter refuses what makes new namespaces, mounts, traces, or takes memory that no limit
counts (System V segments, memory files, kernel keys). It is a second wall: namespaces and the
foreign user stand without it, so an unknown processor simply gets none.
"""

import ctypes
import errno
import os

X86_64, AARCH64 = 0xC000003E, 0xC00000B7
REFUSED = {  # name: number on x86_64, on aarch64
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
}
CLONE, CLONE3 = (56, 220), (435, 435)
NEW_NAMESPACE = 0x7E020000
"""The bits of clone's flags that ask for a namespace."""
X32 = 0x40000000
"""Numbers from here on are the second x86_64 interface, which would walk around the filter."""

LOAD, JUMP_IF_EQUAL, JUMP_IF_ABOVE, JUMP_IF_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, MODE_FILTER = 22, 2


class Instruction(ctypes.Structure):
    """struct sock_filter."""

    _fields_ = [
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    ]


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction))]


def refuse_dangerous_calls():
    """Filter this process and all that it forks; needs no-new-privileges. Cannot be undone.

    Returns:
        Whether a filter is in place.
    """
    known = {"x86_64": (0, X86_64), "aarch64": (1, AARCH64)}
    machine = known.get(os.uname().machine)
    if machine is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    code = _instructions(*machine)
    program = Program(len(code), (Instruction * len(code))(*code))
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(program), 0, 0) == 0


def _instructions(column, architecture):
    """The filter; every test jumps over at most the next return."""
    no_permission = (RETURN, 0, 0, REFUSE | errno.EPERM)
    not_known = (RETURN, 0, 0, REFUSE | errno.ENOSYS)
    code = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_IF_EQUAL, 1, 0, architecture),
        not_known,
        (LOAD, 0, 0, NUMBER),
        (JUMP_IF_ABOVE, 0, 1, X32),
        not_known,
        (JUMP_IF_EQUAL, 0, 1, CLONE3[column]),
        not_known,  # libc falls back on clone, whose flags can be looked at
    ]
    for numbers in REFUSED.values():
        code += [(JUMP_IF_EQUAL, 0, 1, numbers[column]), no_permission]
    code += [
        (JUMP_IF_EQUAL, 1, 0, CLONE[column]),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_IF_BIT, 0, 1, NEW_NAMESPACE),
        no_permission,
        (RETURN, 0, 0, ALLOW),
    ]
    return [Instruction(*each) for each in code]
