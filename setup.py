"""Builds what is in C as well as this machine can: the decode kernel with libjpeg-turbo, without it, or not at all.

All else is in pyproject.toml. What cannot be built never fails an installation: Python walks instead
(`wds_tools.tar.runs`), other decoders do the kernel's work, and `wds_tools.pictures.kernel` says what is missing.
"""

from __future__ import annotations

import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PICTURES = "wds_tools/pictures"
HEADERS = [f"{PICTURES}/_pixels_{name}.h" for name in ("resize", "jpeg", "transcode", "huffman", "codes")]
HEADERS += [f"{PICTURES}/_pixels_{name}.h" for name in ("kernel", "sample", "facts", "place")]
HEADERS += ["wds_tools/_walk_member.h"]
SOURCES = [f"{PICTURES}/_pixels.c", f"{PICTURES}/_pixels_resize.c"]
WITH_JPEG = ("jpeg", "transcode", "huffman", "codes", "samples", "sample", "facts", "place")
FLAGS = ["-std=gnu11", "-O3", "-Wall", "-Wextra", "-fvisibility=hidden"]
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")  # free-threaded Python has no stable ABI yet
LIMITED = [("Py_LIMITED_API", "0x030B0000")] if STABLE else []


class BuildWhatCanBe(build_ext):
    """Tries the variants of the kernel in turn, and goes on without what fails."""

    def build_extension(self, ext: Extension) -> None:
        if ext.name.endswith("_pixels"):
            self._build_kernel(ext)
        else:
            self._try(ext)

    def _build_kernel(self, ext: Extension) -> None:
        with_jpeg = (
            [*SOURCES, *(f"{PICTURES}/_pixels_{name}.c" for name in WITH_JPEG), "wds_tools/_walk_member.c"],
            [*ext.define_macros, ("PIXELS_WITH_JPEG", "1")],
            [*ext.libraries, "jpeg", "dl"],
        )
        without = (ext.sources, ext.define_macros, ext.libraries)
        for ext.sources, ext.define_macros, ext.libraries in (with_jpeg, without):
            if self._try(ext):
                return

    def _try(self, ext: Extension) -> bool:
        try:
            super().build_extension(ext)
        except Exception as error:  # noqa: BLE001 - whatever a compiler does, installing goes on
            sys.stderr.write(f"{ext.name} with {ext.libraries} was not built: {error}\n")
            return False
        return True


setup(
    ext_modules=[
        Extension(
            "wds_tools._walk",
            ["wds_tools/_walk.c", "wds_tools/_walk_member.c"],
            depends=["wds_tools/_walk_member.h"],
            extra_compile_args=FLAGS,
            define_macros=LIMITED,
            py_limited_api=STABLE,
            optional=True,
        ),
        Extension(
            "wds_tools._philox",
            ["wds_tools/_philox.c"],
            extra_compile_args=FLAGS,
            define_macros=LIMITED,
            py_limited_api=STABLE,
            optional=True,
        ),
        Extension(
            "wds_tools.pictures._pixels",
            SOURCES,
            depends=HEADERS,
            # -ffp-contract=off: the same weights, and so the same pixels, on every processor. -fwrapv: Python's own
            # flag, lost where CFLAGS is set; gcc 12 does not vectorise the resize without it: a crop takes 40% longer.
            extra_compile_args=[*FLAGS, "-ffp-contract=off", "-fwrapv"],
            libraries=["m"],
            define_macros=LIMITED,
            py_limited_api=STABLE,
            optional=True,  # so that setuptools does not miss the file where nothing could be built
        ),
    ],
    cmdclass={"build_ext": BuildWhatCanBe},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {},
)
