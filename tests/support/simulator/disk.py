"""A disk that can be cut off: every call below one folder goes to the real files, and is remembered until it is synced.

A power cut keeps what was synced. Of the rest anything may be there: a name made, moved or removed since its folder's
last fsync holds or does not, each by itself (a rename is one change); the bytes written since a file's last fsync are
there, cut short, or zeros. That is what POSIX promises, and no more. What libraries in C write past `os` is not
interposed; it is noticed at the next fsync or cut, and no safer than other bytes.
"""

import _pyio
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

CALLS = (
    "open",
    "write",
    "fsync",
    "close",
    "link",
    "replace",
    "rename",
    "unlink",
    "mkdir",
    "rmdir",
    "listdir",
    "scandir",
)
REAL = SimpleNamespace(**{name: getattr(os, name) for name in CALLS})


class KilledError(BaseException):
    """This process was killed; nothing of it reaches disk or network any more. `share` of its last write did."""

    def __init__(self, share: float = 0.0) -> None:
        super().__init__(share)
        self.share = share


@dataclass(eq=False)
class File:
    live: bytearray = field(default_factory=bytearray)
    durable: bytes = b""


@dataclass(eq=False)
class Folder:
    live: dict[str, Any] = field(default_factory=dict)
    durable: dict[str, Any] = field(default_factory=dict)


Change = list[tuple[Folder, str, File | Folder | None]]


class Disk:
    """`before(call, path)` is asked before every call: it may raise an OSError or KilledError, and returns the share of
    a write that comes through.
    """

    def __init__(self, root: Path, before: Callable[[str, str], float]) -> None:
        self.root, self._before = str(root), before
        self._top = Folder()
        self._unsynced: list[Change] = []
        self._fds: dict[int, tuple[File | Folder, str]] = {}

    def inside(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and f"{_absolute(path)}/".startswith(f"{self.root}/")

    def calls(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Each interposed call of `os`: itself below the folder, the real one elsewhere."""
        for name in CALLS:
            yield name, self._interposed(getattr(self, f"_{name}"), getattr(REAL, name))

    def _interposed(self, ours: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any = ".", *args: Any, **kwargs: Any) -> Any:
            folder = kwargs.pop("dir_fd", None)  # shutil.rmtree's way
            if folder in self._fds:
                target = f"{self.root}/{self._fds[folder][1]}/{target}"
            elif folder is not None:
                return real(target, *args, dir_fd=folder, **kwargs)
            mine = target in self._fds if isinstance(target, int) else self.inside(target)
            return (ours if mine else real)(target, *args, **kwargs)

        return call

    def reading(self, path: Any) -> None:
        """A file is about to be opened for reading."""
        self._before("read", self._name(path))

    def open_for_writing(self, path: Any, mode: str, *args: Any, **kwargs: Any) -> Any:
        """What `open` gives, made of the calls below."""
        return _pyio.open(path, mode, *args, **kwargs)

    # the calls

    def _open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        self._before("create" if flags & os.O_CREAT else "open", self._name(path))
        new = flags & os.O_CREAT and not Path(path).exists()
        fd = REAL.open(path, flags, mode)
        if new:
            self._change([(*self._place(path), File())])
        if flags & os.O_TRUNC:
            self._node(path).live.clear()
        self._fds[fd] = self._node(path), self._name(path)
        return fd

    def _write(self, fd: int, data: Any) -> int:
        file, name = self._fds[fd]
        try:
            share = self._before("write", name)
        except KilledError as killed:
            self._append(fd, file, bytes(data)[: int(len(data) * killed.share)])
            raise
        return self._append(fd, file, bytes(data)[: max(1, int(len(data) * share))])

    def _append(self, fd: int, file: File, data: bytes) -> int:
        file.live += data
        return REAL.write(fd, data) if data else 0

    def _fsync(self, fd: int) -> None:
        self._before("fsync", self._fds[fd][1])
        node, name = self._fds[fd]  # asked now, since the folder may just have been moved
        if isinstance(node, File):
            self._notice_bytes(node, Path(self.root, name))
            node.durable = bytes(node.live)
            return
        self._notice_names(node, Path(self.root, name))
        for change in [change for change in self._unsynced if any(folder is node for folder, _, _ in change)]:
            self._unsynced.remove(change)
            _apply(change)

    def _close(self, fd: int) -> None:
        del self._fds[fd]
        REAL.close(fd)

    def _link(self, source: Any, target: Any, **kwargs: Any) -> None:
        self._before("link", self._name(target))
        REAL.link(source, target, **kwargs)
        self._change([(*self._place(target), self._node(source))])

    def _replace(self, source: Any, target: Any) -> None:
        self._before("rename", self._name(target))
        REAL.replace(source, target)
        self._change([(*self._place(target), self._node(source)), (*self._place(source), None)])

    _rename = _replace

    def _unlink(self, path: Any) -> None:
        self._before("unlink", self._name(path))
        REAL.unlink(path)
        self._change([(*self._place(path), None)])

    def _mkdir(self, path: Any, mode: int = 0o777) -> None:
        if not Path(path).exists():
            self._before("mkdir", self._name(path))
        REAL.mkdir(path, mode)
        self._change([(*self._place(path), Folder())])

    def _rmdir(self, path: Any) -> None:
        self._before("unlink", self._name(path))
        REAL.rmdir(path)
        self._change([(*self._place(path), None)])

    def _listdir(self, path: Any = ".") -> list[str]:
        self._before("list", self._name(path))
        return sorted(REAL.listdir(path))

    def _scandir(self, path: Any = ".") -> Any:
        self._before("list", self._name(path))
        with REAL.scandir(path) as entries:
            return nullcontext(sorted(entries, key=lambda entry: entry.name))

    def close_all(self) -> None:
        """What the kernel does when a process ends."""
        for fd in list(self._fds):
            self._close(fd)

    # what the disk knows

    def _name(self, path: Any) -> str:
        return self._fds[path][1] if isinstance(path, int) else os.path.relpath(path, self.root)

    def _place(self, path: Any) -> tuple[Folder, str]:
        return self._node(Path(path).parent), Path(path).name

    def _node(self, path: Any) -> Any:
        node: Any = self._top
        for name in filter(None, _absolute(path).removeprefix(self.root).split("/")):
            if name not in node.live:
                self.notice()
            node = node.live[name]
        return node

    def notice(self) -> None:
        """Takes note of all that was made, removed or written past the interposed calls."""
        folders = [(self._top, Path(self.root))]
        for folder, path in folders:
            self._notice_names(folder, path)
            for name, node in folder.live.items():
                if isinstance(node, Folder):
                    folders.append((node, path / name))
                else:
                    self._notice_bytes(node, path / name)

    def _notice_names(self, folder: Folder, path: Path) -> None:
        real = {entry.name: entry.is_dir() for entry in sorted(REAL.scandir(path), key=lambda entry: entry.name)}
        for name in real.keys() - folder.live.keys():
            self._change([(folder, name, Folder() if real[name] else File())])
        for name in folder.live.keys() - real.keys():
            self._change([(folder, name, None)])

    def _notice_bytes(self, file: File, path: Path) -> None:
        if path.exists():
            file.live[:] = path.read_bytes()

    def _change(self, change: Change) -> None:
        for folder, name, node in change:
            folder.live[name] = node
            if node is None:
                del folder.live[name]
        self._unsynced.append(change)

    def cut_power(self, dice: Random) -> int:
        """Leaves on the real disk one of the states that a power cut may leave. Returns how many changes were lost."""
        share = dice.choice((0.0, 0.0, 0.5, 0.9))
        self.notice()
        kept = [change for change in self._unsynced if dice.random() < share]
        lost = len(self._unsynced) - len(kept)
        for change in kept:
            _apply(change)
        self._unsynced.clear()
        shutil.rmtree(self.root)
        lost += self._settle(self._top, Path(self.root), dice)
        return lost

    def _settle(self, folder: Folder, path: Path, dice: Random) -> int:
        lost = 0
        path.mkdir()
        folder.live = dict(folder.durable)
        for name, node in folder.durable.items():
            if isinstance(node, Folder):
                lost += self._settle(node, path / name, dice)
                continue
            if node.durable != node.live:
                node.durable = _torn(node, dice)
                lost += node.durable != node.live
            node.live = bytearray(node.durable)
            (path / name).write_bytes(node.durable)
        return lost

    def move(self, source: Path, target: Path) -> None:
        """Moves a folder as somebody else does, durably; what is open in it stays open."""
        self.notice()
        node, (old, name), (new, as_name) = self._node(source), self._place(source), self._place(target)
        REAL.replace(source, target)
        self._change([(new, as_name, node), (old, name, None)])
        _apply(self._unsynced.pop())
        was, now = self._name(source), self._name(target)
        for fd, (opened, path) in self._fds.items():
            if f"{path}/".startswith(f"{was}/"):
                self._fds[fd] = opened, now + path.removeprefix(was)

    def remove(self, path: Path) -> None:
        """Removes a folder, durably."""
        shutil.rmtree(path, ignore_errors=True)
        self.notice()
        parent, name = self._place(path)
        self._unsynced = [change for change in self._unsynced if not any(one is parent for one, _, _ in change)]
        parent.durable.pop(name, None)

    def synced(self) -> None:
        """Everything there is becomes durable: time has passed."""
        self.notice()
        while self._unsynced:
            _apply(self._unsynced.pop(0))
        _sync_all(self._top)


def _absolute(path: Any) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - asked before every call, so it must be quick


def _torn(file: File, dice: Random) -> bytes:
    """What a file may hold whose last bytes were not synced."""
    old, new = file.durable, bytes(file.live)
    cut = dice.randint(len(old), len(new))
    return dice.choice((old, new, new[:cut], new[:cut] + bytes(len(new) - cut)))


def _apply(change: Change) -> None:
    for folder, name, node in change:
        if node is None:
            folder.durable.pop(name, None)
        else:
            folder.durable[name] = node


def _sync_all(folder: Folder) -> None:
    for node in folder.live.values():
        if isinstance(node, Folder):
            _sync_all(node)
        else:
            node.durable = bytes(node.live)


FAULTS = {
    "create": (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EDQUOT),
    "open": (errno.EIO, errno.EMFILE),
    "read": (errno.EIO, errno.EMFILE),
    "write": (errno.EIO, errno.ENOSPC, 0, 0),  # 0: only half of it is written
    "fsync": (errno.EIO, errno.ENOSPC),
    "link": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EIO, errno.ENOSPC),
    "unlink": (errno.EIO,),
    "mkdir": (errno.EIO, errno.ENOSPC),
    "list": (errno.EIO, errno.EMFILE),
}
"""What may fail, and how."""
