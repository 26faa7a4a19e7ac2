"""Try the headwater that is installed: import, decide, simulate, ask for help.

``make wheel`` and cibuildwheel run this file.
"""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import headwater as hw
from headwater import native

problem = hw.Problem(
    latent=hw.Discrete(["student", "worker", "retiree"]),
    arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]},
)
policy = hw.make_policy("c-ucb", problem)
arm = policy.select()
policy.update(arm, 1 if arm == "banner" else 1.5)
run = hw.simulate(problem, [0.3, 0.4, 0.3], policies=["ucb1", "c-ucb"], horizon=1000, replications=20, seed=1)
assert run.compare("c-ucb", "ucb1").high < 0
shown = subprocess.run([Path(sys.executable).with_name("headwater"), "--help"], capture_output=True, text=True, check=True)
assert "simulate" in shown.stdout
folder = Path(hw.__file__).parent
assert Path(native.__file__).parent == folder
sys.stdout.write(f"headwater {version('headwater')} in {folder}: imported, decided, simulated ({native.simd()}), gave help\n")
