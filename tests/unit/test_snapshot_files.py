"""How a snapshot gets to disk: safe against a power cut, with the mode and the place of the file it replaces."""

from __future__ import annotations

import os
import stat

import pytest

from streamgp.contract import snapshot


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_file_is_on_disk_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    order = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor):
        order.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def replaced(*names):
        order.append("rename")
        replace(*names)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    snapshot.write(tmp_path / "m.sgp", b"state")
    assert order == ["file", "rename", "folder"]


def test_a_replaced_file_keeps_its_mode_and_a_new_one_has_that_of_any_new_file(tmp_path):
    path, ordinary = tmp_path / "m.sgp", tmp_path / "ordinary"
    ordinary.touch()
    snapshot.write(path, b"one")
    assert mode(path) == mode(ordinary)
    path.chmod(0o664)
    snapshot.write(path, b"two")
    assert (mode(path), path.read_bytes()) == (0o664, b"two")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path, there):
    (tmp_path / "disk").mkdir()
    link, target = tmp_path / "m.sgp", tmp_path / "disk" / "real.sgp"
    if there:
        target.write_bytes(b"old")
    link.symlink_to(target)
    snapshot.write(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert [p.name for p in target.parent.iterdir()] == ["real.sgp"]


def test_what_is_no_ordinary_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not an ordinary file"):
        snapshot.write(tmp_path / "pipe", b"state")
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "m.sgp"
    snapshot.write(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        snapshot.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["m.sgp"]


@pytest.mark.skipif(os.name != "posix", reason="files are locked by flock")
def test_what_a_killed_save_left_behind_is_removed_by_the_next_one_and_nothing_else(tmp_path):
    import fcntl

    names = [
        ".m.sgp.0123abcd",
        ".m.sgp.89abcdef",
        ".m.sgp.77777777",
        ".other.sgp.0123abcd",
        ".m.sgp.notes",
        "m.sgp.0123abcd",
    ]
    left, written, recent, *others = [tmp_path / name for name in names]
    for path in (left, written, recent, *others):
        path.write_bytes(b"part of a model")
        if path != recent:
            os.utime(path, (1.0, 1.0))
    with open(written, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as the save does that is writing it
        snapshot.write(tmp_path / "m.sgp", b"state")
        assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["m.sgp", *names[1:]])
    snapshot.write(tmp_path / "m.sgp", b"state")
    assert not written.exists()
    assert recent.exists()


@pytest.mark.skipif(os.name != "posix", reason="files are locked by flock")
def test_a_save_holds_its_temporary_file_while_it_writes(tmp_path, monkeypatch):
    fsync, seen = os.fsync, []

    def another_save(descriptor):
        fsync(descriptor)
        if not seen:  # in the middle of the first
            seen.extend(tmp_path.iterdir())
            os.utime(seen[0], (1.0, 1.0))
            snapshot.write(tmp_path / "m.sgp", b"two")
            assert seen[0].exists()

    monkeypatch.setattr(os, "fsync", another_save)
    snapshot.write(tmp_path / "m.sgp", b"one")
    assert [p.name for p in tmp_path.iterdir()] == ["m.sgp"]
    assert (tmp_path / "m.sgp").read_bytes() == b"one"
