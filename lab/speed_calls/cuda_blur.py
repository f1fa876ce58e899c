"""nweston/cuda-blur: blurs of an image by direct sums, by windows that slide, and by weights."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "nweston/cuda-blur"
WIDTH, HEIGHT, RADIUS = 4096, 2048, 8


def blur(kernel, grid, threads, ladder=""):
    def arguments():
        image = (WIDTH, HEIGHT, 1, 4, WIDTH)
        names = ("width", "height", "channel_count", "sizeof_channel", "stride_pixels")
        dims = dict(zip(names, image, strict=True))
        return (zeros(HEIGHT, WIDTH), floats(HEIGHT, WIDTH), dims, RADIUS)

    return at("blur.cu", kernel, template=("float",), ladder=ladder)[grid, threads](arguments)


def direct(kernel, ladder):
    return blur(kernel, (WIDTH // 16, HEIGHT // 8), (16, 8), ladder)


LAUNCHES = [
    *(direct(f"horizontal_{name}_blur_kernel", "rows") for name in ("direct_box", "direct_gaussian")),
    direct("horizontal_precomputed_blur_kernel", "rows"),
    *(direct(f"vertical_{name}_blur_kernel", "columns") for name in ("direct_box", "direct_gaussian")),
    direct("vertical_precomputed_blur_kernel", "columns"),
    blur("vertical_box_blur_kernel", WIDTH // 128, (128, 8), "columns"),
]
