"""The gallery of broken kernels (`gallery`), and what is wrong with a result (`diagnose`)."""

from fgn.bugs.diagnosis import Diagnosis, diagnose, diagnose_norm, diagnose_product

__all__ = ["Diagnosis", "diagnose", "diagnose_norm", "diagnose_product"]
