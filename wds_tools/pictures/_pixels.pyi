from typing import Any

from wds_tools.sample import BytesLike

JPEG: str  # such as "libjpeg-turbo 2.1.5"; "" where the kernel was built without
HUFFMAN: bool  # whether the kernel's own Huffman decoder was tried with that libjpeg

class Kernel:
    def resize(
        self, pixels: Any, left: float, top: float, width: float, height: float, out: Any, orientation: int, /
    ) -> None: ...
    def jpeg(  # only where JPEG is not ""
        self,
        data: BytesLike,
        stored_width: int,
        stored_height: int,
        left: float,
        top: float,
        width: float,
        height: float,
        out: Any,
        orientation: int,
        entropy: int = 0,
        /,
    ) -> tuple[bool, str] | None: ...
    def units(self) -> int: ...  # only where JPEG is not ""
    def encode(self, pixels: Any, quality: int, /) -> bytes | tuple[bool, str]: ...  # only where JPEG is not ""
    def baseline(  # only where JPEG is not ""
        self, data: BytesLike, width: int, height: int, /
    ) -> bytes | tuple[bool, str]: ...
    def samples(  # only where JPEG is not ""
        self,
        places: Any,
        memories: tuple[BytesLike, ...],
        draws: Any,
        out: Any,
        pictures: tuple[str, ...],
        wanted: tuple[str, ...],
        cut: tuple[float, ...],
        orient: bool,
        max_pixels: int,
        entropy: int,
        /,
    ) -> tuple[list[tuple[str, dict[str, Any]] | None], int, int, int, int]: ...
    def arrays(  # only where JPEG is not ""
        self,
        places: Any,
        memories: tuple[BytesLike, ...],
        out: Any,
        fields: tuple[str, ...],
        wanted: tuple[str, ...],
        head: bytes,
        begin: int,
        /,
    ) -> tuple[list[tuple[str, dict[str, Any]] | None], int, int, int, int]: ...
    def facts(self, data: BytesLike, /) -> tuple[int, int, int] | None: ...  # only where JPEG is not ""
    def place(  # only where JPEG is not ""
        self, cut: tuple[float, ...], width: int, height: int, draws: Any, /
    ) -> tuple[float, float, float, float, bool] | None: ...
