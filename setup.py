"""Builds the decode kernel as well as this machine can: with libjpeg-turbo, without it, or not at all.

All else is in pyproject.toml. A kernel that cannot be built never fails an installation: `wds_tools.pictures.kernel`
says at run time what is missing, and other decoders do its work.
"""

from __future__ import annotations

import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PICTURES = "wds_tools/pictures"
HEADERS = [f"{PICTURES}/_pixels_resize.h", f"{PICTURES}/_pixels_jpeg.h"]
SOURCES = [f"{PICTURES}/_pixels.c", f"{PICTURES}/_pixels_resize.c"]
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")  # free-threaded Python has no stable ABI yet


class BuildKernel(build_ext):
    """Tries the variants of the kernel in turn."""

    def build_extension(self, ext: Extension) -> None:
        with_jpeg = (
            [*SOURCES, f"{PICTURES}/_pixels_jpeg.c"],
            [*ext.define_macros, ("PIXELS_WITH_JPEG", "1")],
            [*ext.libraries, "jpeg"],
        )
        without = (ext.sources, ext.define_macros, ext.libraries)
        for ext.sources, ext.define_macros, ext.libraries in (with_jpeg, without):
            try:
                super().build_extension(ext)
            except Exception as error:  # noqa: BLE001 - whatever a compiler does, installing goes on
                sys.stderr.write(f"The decode kernel with {ext.libraries} was not built: {error}\n")
            else:
                return


setup(
    ext_modules=[
        Extension(
            "wds_tools.pictures._pixels",
            SOURCES,
            depends=HEADERS,
            # -ffp-contract=off: the same weights, and so the same pixels, on every processor
            extra_compile_args=["-std=gnu11", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-fvisibility=hidden"],
            libraries=["m"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE else [],
            py_limited_api=STABLE,
            optional=True,  # so that setuptools does not miss the file where nothing could be built
        )
    ],
    cmdclass={"build_ext": BuildKernel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {},
)
