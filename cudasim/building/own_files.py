"""Files that no other user may have placed: built libraries are loaded, and their code runs.

A build folder may be in a place where others can write ($CUDASIM_CACHE in /tmp). So the folder, the lock and
the library in it must belong to this user, to root, or to the owner of these sources (whose code runs
anyway). No one else may write to them, and none may be a link. Others are named, and not used.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import grp
import hashlib
import os
import pwd
import stat
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

from cudasim.building.places import cache_variable


class NotOwnError(RuntimeError):
    """A file or a folder that another user may have placed; the message tells what to do."""


def _is_trusted_group(gid: int) -> bool:
    """Whether the group is this user's own, as on many systems, or may write to these sources anyway."""
    sources = os.stat(__file__)
    if sources.st_gid == gid and sources.st_mode & stat.S_IWGRP:
        return True
    try:
        return gid == os.getgid() and grp.getgrgid(gid).gr_name == pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False


def _refuse_strangers(path: Path, status: os.stat_result):
    remove = f"remove it ({path}), or set {cache_variable()} to a folder of your own"
    owners = {os.geteuid(), 0, os.stat(__file__).st_uid}
    if status.st_uid not in owners:
        raise NotOwnError(
            f"{path}: expected a file of this user (number {os.geteuid()}), got one of user {status.st_uid}, "
            f"and nothing of theirs is run: {remove}"
        )
    by_group = status.st_mode & stat.S_IWGRP and not _is_trusted_group(status.st_gid)
    # In a folder with the sticky bit, like /tmp, users cannot remove or replace each other's files.
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if (by_group or status.st_mode & stat.S_IWOTH) and not is_sticky:
        raise NotOwnError(
            f"{path}: expected that only this user can write to it, got mode "
            f"{stat.S_IMODE(status.st_mode):o}, so others may have changed it: {remove}; where nobody else "
            f"has been, `chmod go-w {path}` is enough"
        )


def opened(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of the file or folder, opened without following a link. NotOwnError if it is a link or
    another user's, OSError if it does not exist."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    except OSError as error:
        if path.is_symlink() and error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            meant = f", or set {cache_variable()} to the folder that is meant" if path.is_dir() else ""
            raise NotOwnError(
                f"{path}: expected a file or folder, got a symbolic link to {os.readlink(path)}, and links "
                f"are not followed here: remove it{meant}"
            ) from error
        raise
    try:
        status = os.fstat(descriptor)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise NotOwnError(f"{path}: expected a file or a folder, got neither: remove it")
        _refuse_strangers(path, status)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_folder(folder: Path, top: Path | None = None):
    """Makes the folder if it is missing. NotOwnError if it, or a folder between `top` and it, is not this
    user's own."""
    top = folder if top is None else top
    top.parent.mkdir(parents=True, exist_ok=True)
    for level in (*(above for above in reversed(folder.parents) if above.is_relative_to(top)), folder):
        with suppress(FileExistsError):
            level.mkdir(mode=0o755)
        os.close(opened(level, os.O_RDONLY | os.O_DIRECTORY))


@contextmanager
def locked(path: Path, what: str = "", top: Path | None = None):
    """Holds the lock file, so that two processes, or two threads, do not build the same library at once.
    Nothing is ever written to the file.

    what: the library's title; with it, a line tells if this process waits for another one. top: as for
    `make_folder()`, which makes the file's folder.
    """
    make_folder(path.parent, top)
    descriptor = opened(path, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if what:
                print(f"waiting until another process has built the {what}", file=sys.stderr)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@functools.lru_cache(64)
def _digest(path: Path, device: int, inode: int, size: int, written: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(path: Path) -> str:
    """A digest of the file's bytes. NotOwnError if the file or its folder is not this user's own."""
    os.close(opened(path.parent, os.O_RDONLY | os.O_DIRECTORY))
    descriptor = opened(path)
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    # A writer can set back a file's modification time, but not its change time.
    times = status.st_mtime_ns, status.st_ctime_ns
    return _digest(path, status.st_dev, status.st_ino, status.st_size, *times)


def read_text(path: Path) -> str:
    """The contents of a small file of this user."""
    with os.fdopen(opened(path)) as file:
        return file.read()


def _seal_of(path: Path) -> Path:
    return path.with_suffix(".sha256")


def seal(path: Path):
    """Notes the bytes of a built file."""
    _seal_of(path).write_text(digest_of(path))


def is_sealed(path: Path) -> bool:
    """Whether the file exists, with the bytes that were noted. NotOwnError if it is not this user's own."""
    try:
        return digest_of(path) == read_text(_seal_of(path))
    except FileNotFoundError:
        return False
