"""Eight threads at a time make plain, checked and counted calls, the first ones of their process too.

FGN_STRESS_SECONDS=60 makes a stress test of it.
"""

import os
import subprocess
import sys

import pytest

from fgn.native.places import ROOT

STRESS = """
import sys, threading, time
import torch, fgn
from fgn.simulator import check, count

end, failures, calls = time.time() + float(sys.argv[1]), [], [0] * 8
chain, shape = fgn.chains.problem("gemm_groupnorm_hardtanh", (5, 24, 48, 4))
x, parameters = fgn.chains.random_inputs(chain, shape)
versions = ["naive", "register_tile", "fused", "one_kernel"]

def call(version):
    return fgn.chain_forward(chain, x, parameters, version)

def work(number):
    version = versions[number % 4]
    try:
        expected, loads = call(version), None
        while time.time() < end or calls[number] < 3:
            if calls[number] % 3 == 0:
                assert torch.equal(call(version), expected)
            elif calls[number] % 3 == 1:
                check(lambda: call(version))
            else:
                table = count(lambda: call(version))
                assert loads is None or table.equals(loads)
                loads = table
            calls[number] += 1
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failures, min(calls))
"""

AFTER_FORK = """
import os, torch, fgn
x, weight = torch.randn(70, 40), torch.randn(65, 40)
expected = fgn.linear(x, weight)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(fgn.linear(x, weight), expected) else 1)
print(os.waitpid(child, 0)[1])
"""


def output_of(script: str, *arguments) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_eight_threads():
    failures, _, fewest = output_of(STRESS, os.environ.get("FGN_STRESS_SECONDS", 2)).rpartition(" ")
    assert failures == "[]" and int(fewest) >= 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
def test_a_child_process_after_use():
    assert output_of(AFTER_FORK) == "0"
