"""What `make lab` tells Jupyter: how it saves notebooks, and that it opens the repository as a whole, so that
the links of the notebooks to README, bugs/ and cuda_c/ lead somewhere.

`c` is Jupyter's own: it runs this file with its configuration under that name.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import notebooks  # noqa: E402

c = get_config()  # noqa: F821
c.ServerApp.root_dir = str(ROOT)
c.LabApp.default_url = "/lab/tree/notebooks/00_first_run.ipynb"
# In a container one is root, and Jupyter would refuse. It still listens to this machine only.
c.ServerApp.allow_root = os.geteuid() == 0
c.FileContentsManager.pre_save_hook = notebooks.before_saving
