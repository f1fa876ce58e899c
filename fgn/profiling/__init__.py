"""Profiles by Nsight Compute: of a call (`profile`), of a problem with its machine (`open_session`)."""

from fgn.profiling.ncu import ProfilerError, read_report
from fgn.profiling.own_session import OwnSession, open_own_session
from fgn.profiling.profiler import profile
from fgn.profiling.session import Session, open_session
from fgn.profiling.stalls import read_samples, take_samples

__all__ = [
    "OwnSession",
    "ProfilerError",
    "Session",
    "open_own_session",
    "open_session",
    "profile",
    "read_report",
    "read_samples",
    "take_samples",
]
