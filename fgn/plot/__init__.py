"""Every picture, in one style (`style`).

results              times and errors, as `fgn.bench()` and `fgn.compare()` return them
launches             time, bytes, stalls, occupancy of launches, as `fgn.profile()` returns them
roofline             the roofline: of whole chains, and of launches
fusion_maps          what the model of fusion says over batch and width
lessons              what the notebooks predict and count
tensor_core_figures  what notebooks 06 and 07 draw
"""
