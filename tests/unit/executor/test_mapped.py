"""Mapped libraries: names, origins, and hashes that are remembered."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from lynxbench.executor.mapped import (
    HashCache,
    cache_folder,
    generated_folders,
    name_libraries,
    package_folders,
    parse_maps,
)

MAPS = """\
55d0-55d1 r-xp 00000000 08:01 10 /usr/bin/python3.11
7f00-7f01 r--p 00000000 08:01 11 /opt/env/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so
7f01-7f02 r-xp 00000000 08:01 11 /opt/env/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so
7f02-7f03 r-xp 00001000 08:01 11 /opt/env/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so
7f03-7f04 r--p 00000000 08:01 12 /usr/share/data with space.so
7f04-7f05 r-xp 00000000 08:01 13 /usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0
7f05-7f06 r-xp 00000000 08:01 14 /tmp/torchinductor_x/ab/cdef.so
7f06-7f07 r-xp 00000000 08:01 15 /opt/old/libgone.so.2 (deleted)
7f07-7f08 r-xp 00000000 08:01 16 /other/libgomp.so.1.0.0
7f08-7f09 rw-p 00000000 00:00 0
7f09-7f0a r-xp 00000000 00:00 0 [vdso]
"""
PACKAGES = ("/opt/env/lib/python3.11/site-packages",)


def test_only_executable_shared_objects_once_each() -> None:
    assert parse_maps(MAPS) == [
        "/opt/env/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so",
        "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0",
        "/tmp/torchinductor_x/ab/cdef.so",
        "/opt/old/libgone.so.2 (deleted)",
        "/other/libgomp.so.1.0.0",
    ]


def test_names_do_not_depend_on_where_things_are_installed() -> None:
    named = {lib.name: lib for lib in name_libraries(parse_maps(MAPS), PACKAGES, ("/tmp",))}
    assert named["torch/lib/libtorch_cpu.so"].origin == "bundled"
    assert named["libgomp.so.1.0.0"].origin == "system"
    assert named["libgomp.so.1.0.0 #2"].origin == "system"
    assert named["cdef.so"].origin == "generated"
    assert named["libgone.so.2"].replaced


def test_package_folders_hold_this_environment() -> None:
    import numpy

    assert any(os.path.realpath(numpy.__file__).startswith(f"{folder}/") for folder in package_folders())


def test_cache_folder_follows_the_environment(tmp_path: Path) -> None:
    assert cache_folder({"LYNXBENCH_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/a")
    assert cache_folder({"XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/b/lynxbench")
    assert cache_folder({"HOME": "/c"}) == Path("/c/.cache/lynxbench")
    assert os.path.realpath("/tmp") in generated_folders({"HOME": "/c"})


def test_a_library_is_read_once_and_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "lib.so"
    file.write_bytes(b"one" * 1000)
    first = HashCache(tmp_path / "cache")
    assert first.sha256(str(file)) == hashlib.sha256(b"one" * 1000).hexdigest()
    assert first.hashed_bytes == 3000
    first.save()
    second = HashCache(tmp_path / "cache")
    assert second.sha256(str(file)) == first.sha256(str(file))
    assert second.hashed_bytes == 0
    file.write_bytes(b"two" * 1000)
    assert second.sha256(str(file)) == hashlib.sha256(b"two" * 1000).hexdigest()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": "not a hash"}', "\x00"])
def test_a_broken_cache_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "library-hashes.json").write_text(content)
    file = tmp_path / "lib.so"
    file.write_bytes(b"x")
    cache = HashCache(tmp_path)
    assert cache.sha256(str(file)) == hashlib.sha256(b"x").hexdigest()
    cache.save()
    stored = json.loads((tmp_path / "library-hashes.json").read_text())
    assert list(stored.values()) == [hashlib.sha256(b"x").hexdigest()]


def test_two_writers_keep_each_others_hashes(tmp_path: Path) -> None:
    one, two = HashCache(tmp_path / "c"), HashCache(tmp_path / "c")
    for name, cache in (("a", one), ("b", two)):
        (tmp_path / name).write_bytes(name.encode())
        cache.sha256(str(tmp_path / name))
        cache.save()
    third = HashCache(tmp_path / "c")
    third.sha256(str(tmp_path / "a"))
    third.sha256(str(tmp_path / "b"))
    assert third.hashed_bytes == 0


def test_a_cache_that_cannot_be_written_is_no_loss(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = HashCache(tmp_path / "file" / "below")
    assert cache.sha256(str(tmp_path / "file"))
    cache.save()
