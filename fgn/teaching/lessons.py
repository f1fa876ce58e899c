"""The notebooks' functions for predictions, under one name: counts against a GPU's rates, beside recorded
times."""

from fgn.teaching.chain_costs import (
    beyond_product,
    bought,
    chains_table,
    floors,
    fusion_curves,
    launches,
    planned_product,
    rest_ms,
    rest_of,
    roofline_points,
    savings,
)
from fgn.teaching.kernel_times import gpus, kernel_times, version_times
from fgn.teaching.product_limits import bandwidth, explain, k_tile_cycles, predict
from fgn.teaching.scored_guesses import guess, score
from fgn.teaching.settings import (
    Setting,
    check_linear,
    recorded_results,
    setting,
    time_calls,
    time_group_norm,
)
from fgn.teaching.warp_requests import bytes_asked, each_request, sectors_of, wavefronts_of, words_in_banks
